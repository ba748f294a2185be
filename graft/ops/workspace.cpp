#include <algorithm>
#include <vector>

#include "graft/ops/pass.h"
#include "graft/tensor/buffer.h"

namespace graft::ops {
namespace {

// Every allocation begins on a cache line, so allocations of different threads share none.
constexpr std::size_t kWorkspaceAlignment = 64;
// Small enough for tests, large enough that a real pass reaches its size in few chunks.
constexpr std::size_t kFirstChunkBytes = std::size_t{1} << 20;

}  // namespace

// A bump allocator over a list of chunks. It depends on the requested sizes alone, so a repeated
// pass needs no new chunk, as graph capture requires.
struct Workspace::State {
  Device device;
  Device staging_for;  // kCpu: plain memory
  std::vector<Buffer> chunks;
  std::size_t chunk = 0;  // index of the chunk to allocate from
  std::size_t used = 0;   // bytes used of that chunk
  std::size_t capacity = 0;
};

Workspace::Workspace(Device device, Device staging_for) : state_(std::make_unique<State>()) {
  state_->device = device;
  state_->staging_for = staging_for;
}

Workspace::~Workspace() = default;

TensorView Workspace::allocate(DType dtype, std::initializer_list<std::int64_t> shape) {
  State& s = *state_;
  TensorView view(nullptr, dtype, shape, s.device);
  const std::size_t bytes =
      (view.bytes() + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  while (s.chunk < s.chunks.size() && s.used + bytes > s.chunks[s.chunk].size()) {
    ++s.chunk;
    s.used = 0;
  }
  if (s.chunk == s.chunks.size()) {
    // Doubling the capacity keeps the number of chunks small.
    const std::size_t size = std::max({bytes, s.capacity, kFirstChunkBytes});
    s.chunks.push_back(s.device == kCpu ? Buffer::staging(size, s.staging_for)
                                        : Buffer(size, s.device));
    s.capacity += size;
  }
  view.data = s.chunks[s.chunk].data() + s.used;
  s.used += bytes;
  return view;
}

std::size_t Workspace::peak_bytes() const {
  return state_->capacity;
}

Workspace::Mark Workspace::mark() const {
  return {.chunk = state_->chunk, .used = state_->used};
}

void Workspace::free_to(Mark mark) {
  state_->chunk = mark.chunk;
  state_->used = mark.used;
}

}  // namespace graft::ops
