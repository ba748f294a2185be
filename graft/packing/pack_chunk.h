// Packs one block of one stored row into a chunk of a panel (panel_layout.h), on the CPU and on
// GPUs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "graft/packing/panel_layout.h"
#include "graft/quant/blocks.h"

#ifdef __CUDACC__
#define GRAFT_HOST_DEVICE __host__ __device__
#else
#define GRAFT_HOST_DEVICE
#endif

// Offsets inside a chunk fit an int.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)
namespace graft::packing {

// One chunk of one row with unpacked codes, common to all types.
struct RowChunk {
  std::uint8_t codes[256];
  std::uint8_t scales[16];  // int8; of Q2_K scale and min nibbles
  std::uint8_t mins[16];
  quant::F16Bits d;  // of MXFP4 the E8M0 exponent
  quant::F16Bits dmin;
};

GRAFT_HOST_DEVICE constexpr std::uint8_t byte(int value) {
  return static_cast<std::uint8_t>(value);
}

GRAFT_HOST_DEVICE inline void unpack_nibbles(const std::uint8_t* quants, std::uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = byte(quants[i] & 15);
    codes[i + 16] = byte(quants[i] >> 4);
  }
}

GRAFT_HOST_DEVICE inline void unpack_5_bits(const std::uint8_t* quants,
                                            std::uint32_t high,
                                            std::uint8_t* codes) {
  unpack_nibbles(quants, codes);
  for (int i = 0; i < 4; ++i) {
    // Moves bit k of a byte to bit 4 of byte k of a word: replicate the byte eight times, keep bit
    // k in copy k, and carry it to the top bit by an addition.
    const std::uint64_t copies = 0x0101010101010101U * (high >> (8 * i) & 0xff);
    const std::uint64_t bits = copies & 0x8040201008040201U;
    const std::uint64_t tops = ((bits & 0x7f7f7f7f7f7f7f7fU) + 0x7f7f7f7f7f7f7f7fU) | bits;
    const std::uint64_t fifths = tops >> 3 & 0x1010101010101010U;
    std::uint64_t eight = 0;
    std::memcpy(&eight, codes + 8 * i, sizeof(eight));
    eight |= fifths;
    std::memcpy(codes + 8 * i, &eight, sizeof(eight));
  }
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockQ40& block, RowChunk& row) {
  unpack_nibbles(block.quants, row.codes);
  row.d = block.d;
}

// Panels store the minimum to subtract, blocks the one to add: the sign is flipped.
GRAFT_HOST_DEVICE inline void read_block(const quant::BlockQ41& block, RowChunk& row) {
  unpack_nibbles(block.quants, row.codes);
  row.d = block.d;
  row.dmin = block.m ^ 0x8000;
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockQ50& block, RowChunk& row) {
  unpack_5_bits(block.quants, block.high, row.codes);
  row.d = block.d;
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockQ51& block, RowChunk& row) {
  unpack_5_bits(block.quants, block.high, row.codes);
  row.d = block.d;
  row.dmin = block.m ^ 0x8000;
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockQ80& block, RowChunk& row) {
  for (int i = 0; i < 32; ++i)
    row.codes[i] = byte(block.quants[i] ^ 0x80);
  row.d = block.d;
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockIQ4NL& block, RowChunk& row) {
  unpack_nibbles(block.quants, row.codes);
  row.d = block.d;
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockMXFP4& block, RowChunk& row) {
  unpack_nibbles(block.quants, row.codes);
  row.d = block.e;
}

// Byte 32 h + i holds, two bits each, codes 128 h + i + 0, 32, 64, 96.
GRAFT_HOST_DEVICE inline void unpack_2_bits(const std::uint8_t* quants, std::uint8_t* codes) {
  for (int half = 0; half < 2; ++half) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int i = 0; i < 32; ++i)
        codes[128 * half + 32 * quarter + i] = byte(quants[32 * half + i] >> (2 * quarter) & 3);
    }
  }
}

// Byte 32 g + i holds codes 64 g + i and 64 g + 32 + i.
GRAFT_HOST_DEVICE inline void unpack_nibbles_256(const std::uint8_t* quants, std::uint8_t* codes) {
  for (int g = 0; g < 4; ++g) {
    for (int i = 0; i < 32; ++i) {
      codes[64 * g + i] = byte(quants[32 * g + i] & 15);
      codes[64 * g + 32 + i] = byte(quants[32 * g + i] >> 4);
    }
  }
}

// Bit s of high[i] is bit `to` of code i of sub-block s (32 codes).
GRAFT_HOST_DEVICE inline void add_bit(const std::uint8_t* high, int to, std::uint8_t* codes) {
  for (int s = 0; s < 8; ++s) {
    for (int i = 0; i < 32; ++i)
      codes[32 * s + i] |= byte((high[i] >> s & 1) << to);
  }
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockQ2K& block, RowChunk& row) {
  unpack_2_bits(block.quants, row.codes);
  std::memcpy(row.scales, block.scales, 16);  // scale and min nibbles
  row.d = block.d;
  row.dmin = block.dmin;
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockQ3K& block, RowChunk& row) {
  unpack_2_bits(block.quants, row.codes);
  add_bit(block.high, 2, row.codes);
  for (int s = 0; s < 16; ++s) {
    const int low = s < 8 ? block.scales[s] & 15 : block.scales[s - 8] >> 4;
    const int high = block.scales[8 + s % 4] >> (2 * (s / 4)) & 3;
    row.scales[s] = byte((low | high << 4) - 32);
  }
  row.d = block.d;
}

template <class Block>
GRAFT_HOST_DEVICE void read_scales_and_mins(const Block& block, RowChunk& row) {
  for (int s = 0; s < 4; ++s) {
    row.scales[s] = byte(block.scales[s] & 63);
    row.mins[s] = byte(block.scales[s + 4] & 63);
    row.scales[s + 4] = byte((block.scales[s + 8] & 15) | (block.scales[s] >> 6) << 4);
    row.mins[s + 4] = byte((block.scales[s + 8] >> 4) | (block.scales[s + 4] >> 6) << 4);
  }
  row.d = block.d;
  row.dmin = block.dmin;
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockQ4K& block, RowChunk& row) {
  unpack_nibbles_256(block.quants, row.codes);
  read_scales_and_mins(block, row);
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockQ5K& block, RowChunk& row) {
  unpack_nibbles_256(block.quants, row.codes);
  add_bit(block.high, 4, row.codes);
  read_scales_and_mins(block, row);
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockQ6K& block, RowChunk& row) {
  for (int half = 0; half < 2; ++half) {
    std::uint8_t* codes = row.codes + 128 * half;
    for (int i = 0; i < 64; ++i) {
      codes[i] = byte(block.low[64 * half + i] & 15);
      codes[i + 64] = byte(block.low[64 * half + i] >> 4);
    }
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int i = 0; i < 32; ++i)
        codes[32 * quarter + i] |= byte((block.high[32 * half + i] >> (2 * quarter) & 3) << 4);
    }
  }
  std::memcpy(row.scales, block.scales, 16);
  row.d = block.d;
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockIQ4XS& block, RowChunk& row) {
  for (int s = 0; s < 8; ++s) {
    unpack_nibbles(block.quants + 16 * s, row.codes + 32 * s);
    const int low = block.scales_low[s / 2] >> (s % 2 * 4) & 15;
    const int high = block.scales_high >> (2 * s) & 3;
    row.scales[s] = byte((low | high << 4) - 32);
  }
  row.d = block.d;
}

GRAFT_HOST_DEVICE inline void read_block(const quant::BlockTQ20& block, RowChunk& row) {
  unpack_2_bits(block.quants, row.codes);
  row.d = block.d;
}

// Stores a word (four codes of a row) in line `word`, lane `row`: see the drawing in
// panel_layout.h.
GRAFT_HOST_DEVICE inline void store_word(std::byte* plane,
                                         std::int64_t row,
                                         int word,
                                         std::uint32_t value) {
  std::memcpy(plane + 64 * word + 4 * row, &value, sizeof(value));
}

// Stores bits [shift, shift + kBits) of the codes of a block, 8 / kBits words per line. A line
// combines neighbouring words (stride 1) or words `stride` apart.
template <int kBits>
GRAFT_HOST_DEVICE void store_plane(
    const std::uint32_t* words, int shift, int stride, std::byte* plane, std::int64_t row) {
  constexpr int kWordsPerLine = 8 / kBits;
  constexpr std::uint32_t kMask = 0x01010101U * ((1U << kBits) - 1);
  for (int line = 0; line < 8 / kWordsPerLine; ++line) {
    std::uint32_t joined = 0;
    for (int i = 0; i < kWordsPerLine; ++i) {
      const int from = stride == 1 ? line * kWordsPerLine + i : line + i * stride;
      joined |= (words[from] >> shift & kMask) << (kBits * i);
    }
    store_word(plane, row, line, joined);
  }
}

// Stores 32 codes of a row in the layout drawn in panel_layout.h; unpack_block() in
// graft/kernels/cpu/packed/unpack-inl.h reads it.
GRAFT_HOST_DEVICE inline void store_block(int bits,
                                          const std::uint8_t* codes,
                                          std::byte* block,
                                          std::int64_t row) {
  std::uint32_t words[8];
  std::memcpy(words, codes, sizeof(words));
  switch (bits) {
    case 2:
      store_plane<2>(words, 0, 1, block, row);
      break;
    case 3:
      store_plane<2>(words, 0, 1, block, row);
      store_plane<1>(words, 2, 1, block + 128, row);
      break;
    case 4:
      store_plane<4>(words, 0, 4, block, row);
      break;
    case 5:
      store_plane<4>(words, 0, 4, block, row);
      store_plane<1>(words, 4, 1, block + 256, row);
      break;
    case 6:
      store_plane<4>(words, 0, 4, block, row);
      store_plane<2>(words, 4, 1, block + 256, row);
      break;
    default:
      for (int word = 0; word < 8; ++word)
        store_word(block, row, word, words[word]);
  }
}

// Constants, because device code cannot call the functions of panel_layout.h.
template <PackedFormat kFormat>
struct ChunkShape {
  static constexpr std::int64_t kCols = chunk_cols(kFormat);
  static constexpr std::int64_t kBlockBytes = block_code_bytes(kFormat);
  static constexpr bool kHasSuperBlocks = has_super_blocks(kFormat);
};

template <PackedFormat kFormat>
GRAFT_HOST_DEVICE void store_chunk(const RowChunk& chunk, std::byte* out, std::int64_t row) {
  if constexpr (kFormat.scale == PackedFormat::Scale::E8M0) {
    out[row] = std::byte(chunk.d);
    out += kPanelRows;
  } else {
    constexpr std::size_t kHalf = sizeof(quant::F16Bits);
    std::memcpy(out + 2 * row, &chunk.d, kHalf);
    out += 2 * kPanelRows;
    if constexpr (kFormat.has_min) {
      std::memcpy(out + 2 * row, &chunk.dmin, kHalf);
      out += 2 * kPanelRows;
    }
  }
  if constexpr (ChunkShape<kFormat>::kHasSuperBlocks) {
    constexpr int kGroups = 256 / kFormat.group;
    for (int g = 0; g < kGroups; ++g, out += kPanelRows)
      out[row] = std::byte(chunk.scales[g]);
    constexpr bool kMins = kFormat.has_min && kFormat.scale != PackedFormat::Scale::Nibbles;
    for (int g = 0; kMins && g < kGroups; ++g, out += kPanelRows)
      out[row] = std::byte(chunk.mins[g]);
  }
  using Shape = ChunkShape<kFormat>;
  for (std::int64_t i = 0; i < Shape::kCols; i += kBlockCols, out += Shape::kBlockBytes)
    store_block(kFormat.bits, chunk.codes + i, out, row);
}

}  // namespace graft::packing
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
