// Small pieces of memory side by side in large ones. A matrix of a megabyte alone would not come in
// large pages; many of them in a row do.

#pragma once

#include <cstddef>
#include <memory>

#include "graft/tensor/buffer.h"

namespace graft {

class Arena {
 public:
  // Aligned like a buffer, and as large as asked for. It stays until nobody holds it, whatever
  // becomes of the arena; memory goes back when all pieces of a large one are gone. Throws Error
  // when there is not enough.
  std::shared_ptr<std::byte> take(std::size_t bytes);

 private:
  std::shared_ptr<const Buffer> current_;
  std::size_t used_ = 0;  // of the current one
};

}  // namespace graft
