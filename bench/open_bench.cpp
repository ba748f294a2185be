// graft_open_bench FILE: milliseconds to open a checkpoint and list its tensors. Reads headers
// only, so the file size does not matter.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "graft/base/error.h"
#include "graft/models/weights/checkpoint.h"

namespace {

void open_and_list(const char* path) {
  std::vector<double> milliseconds;
  std::size_t bytes = 0;
  for (int round = 0; round < 21; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const auto source = graft::models::open_checkpoint(path);
    bytes = 0;
    for (const graft::formats::TensorInfo& tensor : source->tensors())
      bytes += tensor.data.size();
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    milliseconds.push_back(elapsed.count());
  }
  std::ranges::sort(milliseconds);
  std::printf("%.1f GB: %.1f ms (median of %zu)\n", static_cast<double>(bytes) / 1e9,
              milliseconds[milliseconds.size() / 2], milliseconds.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    open_and_list(argv[1]);
  } catch (const graft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
