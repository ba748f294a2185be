// AMX tile configuration: the 64-byte operand of ldtilecfg.

#pragma once

#include <cstdint>

namespace graft::kernels::cpu {

struct alignas(64) TileLayout {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};  // per tile register, max 64
  std::uint8_t rows[16] = {};        // per tile register, max 16
};
static_assert(sizeof(TileLayout) == 64);

}  // namespace graft::kernels::cpu
