// The words of 32 bits that a panel keeps of a stored block (types with stored words, see
// panel_layout.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "graft/quant/blocks.h"

// Offsets inside a chunk fit an int.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)
namespace graft::packing {

// All bytes of a block after d.
template <class Block>
quant::F16Bits stored_words(const Block& block, std::uint32_t* words) {
  static_assert(offsetof(Block, d) == 0);
  std::memcpy(words, reinterpret_cast<const std::byte*>(&block) + sizeof(block.d),
              sizeof(block) - sizeof(block.d));
  return block.d;
}

// d stays in the words.
inline quant::F16Bits stored_words(const quant::BlockIQ1M& block, std::uint32_t* words) {
  std::memcpy(words, &block, sizeof(block));
  return 0;
}

// Separates row indices and signs: see the drawing in panel_layout.h.
inline quant::F16Bits stored_words(const quant::BlockIQ2XS& block, std::uint32_t* words) {
  for (int s = 0; s < 8; ++s) {
    std::uint32_t low = 0;
    std::uint32_t rest = 0;
    for (int k = 0; k < 4; ++k) {
      const std::uint32_t quant = block.quants[4 * s + k];
      low |= (quant & 255) << (8 * k);
      rest |= quant >> 9 << (7 * k) | (quant >> 8 & 1) << (28 + k);
    }
    words[2 * s] = low;
    words[2 * s + 1] = rest;
  }
  std::memcpy(words + 16, block.scales, sizeof(block.scales));
  return block.d;
}

// The four bytes with four trits each follow those with five.
inline quant::F16Bits stored_words(const quant::BlockTQ10& block, std::uint32_t* words) {
  std::memcpy(words, block.quants, sizeof(block.quants));
  std::memcpy(words + 12, block.high, sizeof(block.high));
  return block.d;
}

}  // namespace graft::packing
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
