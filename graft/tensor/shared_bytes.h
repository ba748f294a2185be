// Bytes together with the object that keeps them alive: a buffer, an arena or a mapped file.

#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace graft {

struct SharedBytes {
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> owner = {};
};

}  // namespace graft
