#include <algorithm>
#include <vector>

#include "graft/ops/pass.h"
#include "graft/tensor/buffer.h"

namespace graft::ops {
namespace {

// Every piece begins on a cache line, so pieces of different threads share none.
constexpr std::size_t kAlignment = 64;
// Small enough for a test, large enough that a real pass takes few steps to reach its size.
constexpr std::size_t kFirstChunkBytes = std::size_t{1} << 20;

}  // namespace

// Pieces come from the chunks in order. What a pass did once it does again in the same chunks: the
// walk depends on nothing but the sizes asked for.
struct Workspace::State {
  Device device;
  Device staging_for;  // the processor: for nobody
  std::vector<Buffer> chunks;
  std::size_t chunk = 0;  // pieces come from here
  std::size_t used = 0;   // bytes of it
  std::size_t capacity = 0;
};

Workspace::Workspace(Device device, Device staging_for) : state_(std::make_unique<State>()) {
  state_->device = device;
  state_->staging_for = staging_for;
}

Workspace::~Workspace() = default;

TensorView Workspace::take(DType dtype, std::initializer_list<std::int64_t> shape) {
  State& s = *state_;
  TensorView view(nullptr, dtype, shape, s.device);
  const std::size_t bytes = (view.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  while (s.chunk < s.chunks.size() && s.used + bytes > s.chunks[s.chunk].size()) {
    ++s.chunk;
    s.used = 0;
  }
  if (s.chunk == s.chunks.size()) {
    // As much again as there is, so that the number of chunks stays small.
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
