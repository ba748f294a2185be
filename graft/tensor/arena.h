// Bump allocator that packs small allocations into 64 MiB buffers, so that matrices too small for a
// huge page share one.

#pragma once

#include <cstddef>
#include <memory>

#include "graft/tensor/buffer.h"

namespace graft {

class Arena {
 public:
  // Allocates `bytes` bytes, aligned to 64; above 32 MiB in a separate buffer. The pointer keeps
  // its buffer alive, also after the arena is destroyed; a buffer is freed with its last pointer.
  // Throws Error when out of memory.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

 private:
  std::shared_ptr<const Buffer> current_;
  std::size_t used_ = 0;  // bytes of current_
};

}  // namespace graft
