#include "graft/packing/pack_panel.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "graft/base/check.h"
#include "graft/packing/panel_layout.h"
#include "graft/packing/stored_words.h"
#include "graft/quant/blocks.h"

// Offsets inside a chunk fit an int.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)
namespace graft::packing {
namespace {

using quant::StoredRows;

// One chunk of one row with unpacked codes, common to all types.
struct RowChunk {
  std::uint8_t codes[256];
  std::uint8_t scales[16];  // int8; of Q2_K scale and min nibbles
  std::uint8_t mins[16];
  quant::F16Bits d;  // of MXFP4 the E8M0 exponent
  quant::F16Bits dmin;
};

constexpr std::uint8_t byte(int value) {
  return static_cast<std::uint8_t>(value);
}

void unpack_nibbles(const std::uint8_t* quants, std::uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = byte(quants[i] & 15);
    codes[i + 16] = byte(quants[i] >> 4);
  }
}

void unpack_5_bits(const std::uint8_t* quants, std::uint32_t high, std::uint8_t* codes) {
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

void read_block(const quant::BlockQ40& block, RowChunk& row) {
  unpack_nibbles(block.quants, row.codes);
  row.d = block.d;
}

// Panels store the minimum to subtract, blocks the one to add: the sign is flipped.
void read_block(const quant::BlockQ41& block, RowChunk& row) {
  unpack_nibbles(block.quants, row.codes);
  row.d = block.d;
  row.dmin = block.m ^ 0x8000;
}

void read_block(const quant::BlockQ50& block, RowChunk& row) {
  unpack_5_bits(block.quants, block.high, row.codes);
  row.d = block.d;
}

void read_block(const quant::BlockQ51& block, RowChunk& row) {
  unpack_5_bits(block.quants, block.high, row.codes);
  row.d = block.d;
  row.dmin = block.m ^ 0x8000;
}

void read_block(const quant::BlockQ80& block, RowChunk& row) {
  for (int i = 0; i < 32; ++i)
    row.codes[i] = byte(block.quants[i] ^ 0x80);
  row.d = block.d;
}

void read_block(const quant::BlockIQ4NL& block, RowChunk& row) {
  unpack_nibbles(block.quants, row.codes);
  row.d = block.d;
}

void read_block(const quant::BlockMXFP4& block, RowChunk& row) {
  unpack_nibbles(block.quants, row.codes);
  row.d = block.e;
}

// Byte 32 h + i holds, two bits each, codes 128 h + i + 0, 32, 64, 96.
void unpack_2_bits(const std::uint8_t* quants, std::uint8_t* codes) {
  for (int half = 0; half < 2; ++half) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int i = 0; i < 32; ++i)
        codes[128 * half + 32 * quarter + i] = byte(quants[32 * half + i] >> (2 * quarter) & 3);
    }
  }
}

// Byte 32 g + i holds codes 64 g + i and 64 g + 32 + i.
void unpack_nibbles_256(const std::uint8_t* quants, std::uint8_t* codes) {
  for (int g = 0; g < 4; ++g) {
    for (int i = 0; i < 32; ++i) {
      codes[64 * g + i] = byte(quants[32 * g + i] & 15);
      codes[64 * g + 32 + i] = byte(quants[32 * g + i] >> 4);
    }
  }
}

// Bit s of high[i] is bit `to` of code i of sub-block s (32 codes).
void add_bit(const std::uint8_t* high, int to, std::uint8_t* codes) {
  for (int s = 0; s < 8; ++s) {
    for (int i = 0; i < 32; ++i)
      codes[32 * s + i] |= byte((high[i] >> s & 1) << to);
  }
}

void read_block(const quant::BlockQ2K& block, RowChunk& row) {
  unpack_2_bits(block.quants, row.codes);
  std::memcpy(row.scales, block.scales, 16);  // scale and min nibbles
  row.d = block.d;
  row.dmin = block.dmin;
}

void read_block(const quant::BlockQ3K& block, RowChunk& row) {
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
void read_scales_and_mins(const Block& block, RowChunk& row) {
  for (int s = 0; s < 4; ++s) {
    row.scales[s] = byte(block.scales[s] & 63);
    row.mins[s] = byte(block.scales[s + 4] & 63);
    row.scales[s + 4] = byte((block.scales[s + 8] & 15) | (block.scales[s] >> 6) << 4);
    row.mins[s + 4] = byte((block.scales[s + 8] >> 4) | (block.scales[s + 4] >> 6) << 4);
  }
  row.d = block.d;
  row.dmin = block.dmin;
}

void read_block(const quant::BlockQ4K& block, RowChunk& row) {
  unpack_nibbles_256(block.quants, row.codes);
  read_scales_and_mins(block, row);
}

void read_block(const quant::BlockQ5K& block, RowChunk& row) {
  unpack_nibbles_256(block.quants, row.codes);
  add_bit(block.high, 4, row.codes);
  read_scales_and_mins(block, row);
}

void read_block(const quant::BlockQ6K& block, RowChunk& row) {
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

void read_block(const quant::BlockIQ4XS& block, RowChunk& row) {
  for (int s = 0; s < 8; ++s) {
    unpack_nibbles(block.quants + 16 * s, row.codes + 32 * s);
    const int low = block.scales_low[s / 2] >> (s % 2 * 4) & 15;
    const int high = block.scales_high >> (2 * s) & 3;
    row.scales[s] = byte((low | high << 4) - 32);
  }
  row.d = block.d;
}

void read_block(const quant::BlockTQ20& block, RowChunk& row) {
  unpack_2_bits(block.quants, row.codes);
  row.d = block.d;
}

// Stores a word (four codes of a row) in line `word`, lane `row`: see the drawing in
// panel_layout.h.
void store_word(std::byte* plane, std::int64_t row, int word, std::uint32_t value) {
  std::memcpy(plane + 64 * word + 4 * row, &value, sizeof(value));
}

// Stores bits [shift, shift + kBits) of the codes of a block, 8 / kBits words per line. A line
// combines neighbouring words (stride 1) or words `stride` apart.
template <int kBits>
void store_plane(
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
void store_block(int bits, const std::uint8_t* codes, std::byte* block, std::int64_t row) {
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

template <PackedFormat kFormat>
void store_chunk(const RowChunk& chunk, std::byte* out, std::int64_t row) {
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
  if constexpr (has_super_blocks(kFormat)) {
    constexpr int kGroups = 256 / kFormat.group;
    for (int g = 0; g < kGroups; ++g, out += kPanelRows)
      out[row] = std::byte(chunk.scales[g]);
    constexpr bool kMins = kFormat.has_min && kFormat.scale != PackedFormat::Scale::Nibbles;
    for (int g = 0; kMins && g < kGroups; ++g, out += kPanelRows)
      out[row] = std::byte(chunk.mins[g]);
  }
  for (std::int64_t i = 0; i < chunk_cols(kFormat);
       i += kBlockCols, out += block_code_bytes(kFormat))
    store_block(kFormat.bits, chunk.codes + i, out, row);
}

template <DType kType, class Block>
void pack_rows(const StoredRows& rows, const quant::CodecTable& /*codecs*/, std::byte* panel) {
  constexpr PackedFormat kFormat = packed_format(kType);
  static_assert(chunk_cols(kFormat) == info(kType).block_elems);
  RowChunk chunk;
  for (std::int64_t c = 0; c < rows.cols / chunk_cols(kFormat); ++c) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      read_block(reinterpret_cast<const Block*>(rows.data + row * rows.stride)[c], chunk);
      store_chunk<kFormat>(chunk, panel + c * chunk_bytes(kFormat), row);
    }
  }
}

// Words of 16 rows side by side.
template <DType kType, class Block>
void pack_words(const StoredRows& rows, const quant::CodecTable& /*codecs*/, std::byte* panel) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr std::int64_t kHeader = chunk_header_bytes(kFormat);
  std::uint32_t words[kFormat.stored_words];
  for (std::int64_t c = 0; c < rows.cols / chunk_cols(kFormat);
       ++c, panel += chunk_bytes(kFormat)) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      const auto* blocks = reinterpret_cast<const Block*>(rows.data + row * rows.stride);
      const quant::F16Bits d = stored_words(blocks[c], words);
      if constexpr (kHeader != 0) std::memcpy(panel + 2 * row, &d, sizeof(d));
      for (int w = 0; w < kFormat.stored_words; ++w)
        store_word(panel + kHeader, row, w, words[w]);
    }
  }
}

// Reads 32 BF16 or F16 values of a row as bf16.
template <DType kType>
void read_bf16(const std::byte* from, const quant::CodecTable& codecs, std::byte* halves) {
  if constexpr (kType == DType::BF16) {
    std::memcpy(halves, from, 2 * kBlockCols);
  } else {
    std::array<float, kBlockCols> values;
    codecs[static_cast<std::size_t>(kType)].decode(from, values.data(), values.size());
    codecs[static_cast<std::size_t>(DType::BF16)].encode(values.data(), halves, values.size());
  }
}

// Column pairs of 16 rows side by side: see panel_layout.h.
template <DType kType>
void pack_bf16(const StoredRows& rows, const quant::CodecTable& codecs, std::byte* panel) {
  for (std::int64_t c = 0; c < rows.cols; c += kBlockCols, panel += 2 * kBlockCols * kPanelRows) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      std::array<std::byte, 2 * kBlockCols> halves;
      read_bf16<kType>(rows.data + row * rows.stride + 2 * c, codecs, halves.data());
      for (int pair = 0; pair < kBlockCols / 2; ++pair)
        std::memcpy(panel + 64 * pair + 4 * row, halves.data() + 4 * pair, 4);
    }
  }
}

template <DType kType>
void pack_fp8(const StoredRows& rows, const quant::CodecTable& /*codecs*/, std::byte* panel) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr std::int64_t kCols = chunk_cols(kFormat);
  for (std::int64_t c = 0; c < rows.cols; c += kCols, panel += chunk_bytes(kFormat)) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      const float scale = rows.scales == nullptr ? 1.0F : rows.scales[row][c / rows.cols_per_scale];
      std::memcpy(panel + 4 * row, &scale, sizeof(scale));
      const std::byte* from = rows.data + row * rows.stride + c;
      std::byte* codes = panel + chunk_header_bytes(kFormat) + 2 * row;
      for (std::int64_t pair = 0; pair < kCols / 2; ++pair)
        std::memcpy(codes + 2 * kPanelRows * pair, from + 2 * pair, 2);
    }
  }
}

using PackRows = void (*)(const StoredRows& rows,
                          const quant::CodecTable& codecs,
                          std::byte* panel);

struct PackRow {
  DType dtype;
  PackRows pack;
};

constexpr std::array kPackRows = {
    PackRow{DType::Q4_0, pack_rows<DType::Q4_0, quant::BlockQ40>},
    PackRow{DType::Q4_1, pack_rows<DType::Q4_1, quant::BlockQ41>},
    PackRow{DType::Q5_0, pack_rows<DType::Q5_0, quant::BlockQ50>},
    PackRow{DType::Q5_1, pack_rows<DType::Q5_1, quant::BlockQ51>},
    PackRow{DType::Q8_0, pack_rows<DType::Q8_0, quant::BlockQ80>},
    PackRow{DType::Q2_K, pack_rows<DType::Q2_K, quant::BlockQ2K>},
    PackRow{DType::Q3_K, pack_rows<DType::Q3_K, quant::BlockQ3K>},
    PackRow{DType::Q4_K, pack_rows<DType::Q4_K, quant::BlockQ4K>},
    PackRow{DType::Q5_K, pack_rows<DType::Q5_K, quant::BlockQ5K>},
    PackRow{DType::Q6_K, pack_rows<DType::Q6_K, quant::BlockQ6K>},
    PackRow{DType::IQ4_NL, pack_rows<DType::IQ4_NL, quant::BlockIQ4NL>},
    PackRow{DType::IQ4_XS, pack_rows<DType::IQ4_XS, quant::BlockIQ4XS>},
    PackRow{DType::MXFP4, pack_rows<DType::MXFP4, quant::BlockMXFP4>},
    PackRow{DType::IQ1_S, pack_words<DType::IQ1_S, quant::BlockIQ1S>},
    PackRow{DType::IQ1_M, pack_words<DType::IQ1_M, quant::BlockIQ1M>},
    PackRow{DType::IQ2_XXS, pack_words<DType::IQ2_XXS, quant::BlockIQ2XXS>},
    PackRow{DType::IQ2_XS, pack_words<DType::IQ2_XS, quant::BlockIQ2XS>},
    PackRow{DType::IQ2_S, pack_words<DType::IQ2_S, quant::BlockIQ2S>},
    PackRow{DType::IQ3_XXS, pack_words<DType::IQ3_XXS, quant::BlockIQ3XXS>},
    PackRow{DType::IQ3_S, pack_words<DType::IQ3_S, quant::BlockIQ3S>},
    PackRow{DType::TQ1_0, pack_words<DType::TQ1_0, quant::BlockTQ10>},
    PackRow{DType::TQ2_0, pack_rows<DType::TQ2_0, quant::BlockTQ20>},
    PackRow{DType::BF16, pack_bf16<DType::BF16>},
    PackRow{DType::F16, pack_bf16<DType::F16>},
    PackRow{DType::F8_E4M3, pack_fp8<DType::F8_E4M3>},
    PackRow{DType::F8_E5M2, pack_fp8<DType::F8_E5M2>},
};
static_assert(kPackRows.size() == kPackedTypes.size());

}  // namespace

void pack_panel(DType type,
                const quant::StoredRows& rows,
                const quant::CodecTable& codecs,
                std::byte* panel) {
  const auto* found = std::ranges::find(kPackRows, type, &PackRow::dtype);
  GRAFT_CHECK(found != kPackRows.end(), name(type), " has no packed layout");
  if (rows.rows < kPanelRows) {
    std::memset(panel, 0, static_cast<std::size_t>(panel_bytes(packed_format(type), rows.cols)));
  }
  found->pack(rows, codecs, panel);
}

}  // namespace graft::packing
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
