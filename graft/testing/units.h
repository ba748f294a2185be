// For tests: sizes of memory.

#pragma once

#include <cstdint>

namespace graft {

inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

}  // namespace graft
