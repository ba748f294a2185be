#include "graft/perf/measure/measure_disk.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/base/system/new_file.h"
#include "graft/base/system/system.h"
#include "graft/tensor/buffer.h"

namespace graft::perf {
namespace {

// An expert of a large model has a few MiB; drives reach their rate with a few such reads at once.
constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 20U;
constexpr int kThreads = 8;

// Aligned for O_DIRECT, and without two equal blocks: some drives compress.
Buffer random_block() {
  Buffer block(2 * kBlockBytes);
  auto* words = reinterpret_cast<std::uint64_t*>(block.data());
  std::uint64_t state = 88172645463325252U;
  for (std::size_t i = 0; i < 2 * kBlockBytes / sizeof(std::uint64_t); ++i) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    words[i] = state;
  }
  return block;
}

void write_blocks(NewFile& file, std::uint64_t num_blocks) {
  const Buffer block = random_block();
  for (std::uint64_t i = 0; i < num_blocks; ++i)
    file.append({block.data() + i * 4096 % kBlockBytes, kBlockBytes});
  if (::fdatasync(file.fd()) != 0) fail(file.path().string(), ": ", std::strerror(errno));
}

// Bypasses the page cache; where the file system cannot, drops the pages first.
int open_uncached(const NewFile& file) {
  const std::string path = str("/proc/self/fd/", file.fd());
  const int direct = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct >= 0) return direct;
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(file.path().string(), ": ", std::strerror(errno));
  return fd;
}

// Seconds to read all blocks.
double read_blocks(int fd, std::uint64_t num_blocks) {
  std::atomic<std::uint64_t> next = 0;
  std::atomic<int> error = 0;
  const auto read_next = [&] {
    const Buffer block(kBlockBytes);
    for (std::uint64_t b = next++; b < num_blocks; b = next++) {
      const ssize_t got =
          ::pread(fd, block.data(), kBlockBytes, static_cast<off_t>(b * kBlockBytes));
      if (got != static_cast<ssize_t>(kBlockBytes)) error = got < 0 ? errno : EIO;
    }
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::jthread> threads(kThreads);
  for (std::jthread& thread : threads)
    thread = std::jthread(read_next);
  threads.clear();  // waits for them
  if (error != 0) fail("reading failed: ", std::strerror(error));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

MeasuredDisk measure_disk(const std::filesystem::path& folder, std::uint64_t max_bytes) {
  try {
    std::error_code failed;
    const auto space = std::filesystem::space(folder, failed);
    if (failed) fail(folder.string(), ": ", failed.message());
    // Files in tmpfs count as memory of the container.
    const std::uint64_t memory = available_memory();
    if (memory != 0) max_bytes = std::min(max_bytes, memory / 4);
    const std::uint64_t num_blocks =
        std::min<std::uint64_t>(max_bytes, space.available / 4) / kBlockBytes;
    if (num_blocks == 0) fail(folder.string(), ": ", space.available, " bytes are free");
    NewFile file(folder / "graft-disk-test");
    write_blocks(file, num_blocks);
    const int fd = open_uncached(file);
    const double seconds = read_blocks(fd, num_blocks);
    ::close(fd);
    const auto bytes = static_cast<double>(num_blocks * kBlockBytes);
    return {.figures = {.read_bytes_per_s = bytes / std::max(seconds, 1e-9)}, .error = {}};
  } catch (const Error& error) {
    return {.figures = {}, .error = error.what()};
  }
}

}  // namespace graft::perf
