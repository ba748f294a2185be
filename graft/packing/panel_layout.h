// The packed layout of a weight matrix: panels of 16 rows in the order the kernels read them. This
// description serves the code that packs (pack_panel.cpp; on GPUs kernels/cuda/formats), the
// kernels that multiply (graft/kernels/cpu/packed, graft/kernels/cuda) and the file that keeps
// panels (packed_file.h).
//
// Panel layout. Panel p holds weight rows 16 p .. 16 p + 15, row r of the panel below, missing rows
// are zeros. It is a series of chunks over the columns:
//
//              columns ->
//     row  0 | chunk 0 | chunk 1 | ...     a chunk has 32 columns (one scale per block of 32),
//      ...   |         |         |         256 columns (integer scales times one f16: k-quants, IQ
//     row 15 |         |         |         types; TQ types) or 128 columns (FP8, one f32 scale)
//
// A chunk is a header with the scales of all 16 rows, then the codes of its blocks of 32 columns.
// Q4_K, with byte offsets:
//
//        0  d[16]         f16   row r at 2 r
//       32  dmin[16]      f16   row r at 2 r
//       64  scale[8][16]  int8  group g (32 columns) of row r at 16 g + r
//      192  min[8][16]    int8  group g of row r at 16 g + r
//      320  codes of block 0: columns 0..31 of 16 rows, 256 bytes
//      576  codes of block 1: columns 32..63
//      ...
//     2368  next chunk
//
// The headers of the other types:
//
//     Q4_0 Q5_0 Q8_0 IQ4_NL   d[16] f16                                          32 bytes
//     Q4_1 Q5_1               d[16] f16, dmin[16] f16                            64
//     MXFP4                   e[16] uint8 (E8M0 exponents)                       16
//     Q3_K Q6_K               d[16] f16, scale[16][16] int8 (groups of 16)      288
//     IQ4_XS                  d[16] f16, scale[8][16] int8                      160
//     Q4_K Q5_K               as drawn above                                    320
//     Q2_K                    d[16] f16, dmin[16] f16, [16][16] uint8 with the
//                             scale in the low and the min in the high nibble   320
//     F8_E4M3 F8_E5M2         scale[16] f32                                      64
//     TQ2_0                   d[16] f16                                          32
//     types with stored words d[16] f16; of IQ1_M none                           32
//     BF16 F16                none
//
// The codes of a block of 32 columns are lines of 64 bytes, one AVX-512 register each: four bytes
// per row, so that vpdpbusd multiplies a line with four broadcast int8 values of x and adds into
// one 32-bit sum per row.
//
//     byte   0 1 2 3   4 5 6 7         60 61 62 63
//          |  row 0  |  row 1  | ... |   row 15   |
//
// Byte 4 r + b of line w holds these codes c[0..31] of row r, the first in the lowest bits:
//
//     bits   lines
//      8     8       c[4 w + b]
//      4     4       c[4 w + b]  c[4 w + b + 16]
//      2     2       c[16 w + b]  c[16 w + b + 4]  c[16 w + b + 8]  c[16 w + b + 12]
//      3     2 + 1   bits 0..1 as for 2 bits; then a line: bit k is bit 2 of c[4 k + b]
//      5     4 + 1   bits 0..3 as for 4 bits; then a line: bit k is bit 4 of c[4 k + b]
//      6     4 + 2   bits 0..3 as for 4 bits; then two lines: bits 4..5 as for 2 bits
//
// Types with stored words (IQ1, IQ2, IQ3, TQ1_0): a block of 256 columns of a row is already as
// small as it can be, so a chunk keeps its words of 32 bits and only puts those of 16 rows side by
// side: word w of row r is 4 bytes at 64 w + 4 r after the header. The words are the bytes of the
// stored block in their order, without d (graft/quant/blocks.h; IQ1_M spreads d over the last two
// words). IQ2_XS is reordered like IQ2_XXS: words 2 s and 2 s + 1 of columns 32 s .. 32 s + 31 are
//
//     bits   0..7   8..15  16..23  24..31      0..6   7..13  14..20  21..27   28..31
//          |  low bits of row indices 0..3 |  |  sign bits of rows 0..3     | bits 8 of rows 0..3 |
//
// and words 16 and 17 the scales.
//
// Floats hold column pairs, as AMX-BF16 reads them. BF16 (F16 is converted): pair i (columns 2 i
// and 2 i + 1) of row r is 4 bytes at 64 i + 4 r of a chunk. FP8: 2 bytes at 32 i + 2 r after the
// header.

#pragma once

#include <array>
#include <cstdint>

#include "graft/tensor/dtype.h"

namespace graft::packing {

// How a packed type encodes a weight: scale * (code - offset), or scale * code - min.
struct PackedFormat {
  enum class Scale : std::uint8_t {
    F16,      // scale and min: one f16 per 32 columns
    E8M0,     // one power of two per 32 columns
    Super,    // scale and min: an int8 per group times one f16 per 256 columns
    Nibbles,  // as Super, with scale and min in the nibbles of one byte
    F32,      // one per 128 columns, from the scale tensor of the checkpoint
    Wide,     // one f16 per 256 columns; integer scales, if any, are among the stored words
    None,     // none, or among the stored words
  };
  // Codes are integers (Plain) or indices into kIq4Values or kFp4Values, to which `offset` is
  // added.
  enum class Codes : std::uint8_t { Plain, Iq4, Fp4 };

  int bits = 0;    // per code: 2, 3, 4, 5, 6, 8 or 16; 0 of types with stored words
  int group = 32;  // columns that share a scale: 16 or 32
  Scale scale = Scale::F16;
  bool has_min = false;
  int offset = 0;
  Codes codes = Codes::Plain;
  bool as_bf16 = false;  // float weights: weights and x are multiplied as bf16
  int stored_words = 0;  // per row and chunk, of types that keep the words of their stored blocks
};

struct PackedType {
  DType dtype;
  PackedFormat format;
};

// The types that have a packed layout. `group` is always stated: nvcc with clang as host compiler
// takes 0 for a skipped member, whatever its default. Not every instruction set has a kernel for
// each: see kernels::cpu::PackedTable.
inline constexpr std::array kPackedTypes = {
    PackedType{DType::Q4_0, {.bits = 4, .group = 32, .offset = 8}},
    PackedType{DType::Q4_1, {.bits = 4, .group = 32, .has_min = true}},
    PackedType{DType::Q5_0, {.bits = 5, .group = 32, .offset = 16}},
    PackedType{DType::Q5_1, {.bits = 5, .group = 32, .has_min = true}},
    PackedType{DType::Q8_0, {.bits = 8, .group = 32, .offset = 128}},
    PackedType{DType::Q2_K,
               {.bits = 2, .group = 16, .scale = PackedFormat::Scale::Nibbles, .has_min = true}},
    PackedType{DType::Q3_K,
               {.bits = 3, .group = 16, .scale = PackedFormat::Scale::Super, .offset = 4}},
    PackedType{DType::Q4_K,
               {.bits = 4, .group = 32, .scale = PackedFormat::Scale::Super, .has_min = true}},
    PackedType{DType::Q5_K,
               {.bits = 5, .group = 32, .scale = PackedFormat::Scale::Super, .has_min = true}},
    PackedType{DType::Q6_K,
               {.bits = 6, .group = 16, .scale = PackedFormat::Scale::Super, .offset = 32}},
    PackedType{DType::IQ4_NL,
               {.bits = 4, .group = 32, .offset = 128, .codes = PackedFormat::Codes::Iq4}},
    PackedType{DType::IQ4_XS,
               {.bits = 4,
                .group = 32,
                .scale = PackedFormat::Scale::Super,
                .offset = 128,
                .codes = PackedFormat::Codes::Iq4}},
    PackedType{DType::MXFP4,
               {.bits = 4,
                .group = 32,
                .scale = PackedFormat::Scale::E8M0,
                .offset = 16,
                .codes = PackedFormat::Codes::Fp4}},
    PackedType{DType::IQ1_S,
               {.group = 32, .scale = PackedFormat::Scale::Wide, .offset = 9, .stored_words = 12}},
    PackedType{DType::IQ1_M,
               {.group = 16, .scale = PackedFormat::Scale::None, .offset = 9, .stored_words = 14}},
    PackedType{DType::IQ2_XXS,
               {.group = 32, .scale = PackedFormat::Scale::Wide, .offset = 43, .stored_words = 16}},
    PackedType{DType::IQ2_XS,
               {.group = 16, .scale = PackedFormat::Scale::Wide, .offset = 43, .stored_words = 18}},
    PackedType{DType::IQ2_S,
               {.group = 16, .scale = PackedFormat::Scale::Wide, .offset = 43, .stored_words = 20}},
    PackedType{DType::IQ3_XXS,
               {.group = 32, .scale = PackedFormat::Scale::Wide, .offset = 62, .stored_words = 24}},
    PackedType{DType::IQ3_S,
               {.group = 32, .scale = PackedFormat::Scale::Wide, .offset = 15, .stored_words = 27}},
    PackedType{DType::TQ1_0,
               {.group = 32, .scale = PackedFormat::Scale::Wide, .offset = 1, .stored_words = 13}},
    PackedType{DType::TQ2_0,
               {.bits = 2, .group = 32, .scale = PackedFormat::Scale::Wide, .offset = 1}},
    PackedType{DType::BF16,
               {.bits = 16, .group = 32, .scale = PackedFormat::Scale::None, .as_bf16 = true}},
    PackedType{DType::F16,
               {.bits = 16, .group = 32, .scale = PackedFormat::Scale::None, .as_bf16 = true}},
    PackedType{DType::F8_E4M3,
               {.bits = 8, .group = 32, .scale = PackedFormat::Scale::F32, .as_bf16 = true}},
    PackedType{DType::F8_E5M2,
               {.bits = 8, .group = 32, .scale = PackedFormat::Scale::F32, .as_bf16 = true}},
};

// bits and stored_words are 0 for types without a packed layout.
constexpr PackedFormat packed_format(DType type) {
  for (const PackedType& row : kPackedTypes) {
    if (row.dtype == type) return row.format;
  }
  return {};
}

constexpr bool has_packed_layout(DType type) {
  const PackedFormat format = packed_format(type);
  return format.bits != 0 || format.stored_words != 0;
}

inline constexpr std::int64_t kPanelRows = 16;
inline constexpr std::int64_t kBlockCols = 32;  // also the columns of x that share an int8 scale

// Whether a chunk has 256 columns, with integer scales per group.
constexpr bool has_super_blocks(PackedFormat f) {
  return f.scale == PackedFormat::Scale::Super || f.scale == PackedFormat::Scale::Nibbles;
}

// A multiple of kBlockCols; the columns of a matrix are a multiple of it.
constexpr std::int64_t chunk_cols(PackedFormat f) {
  if (f.scale == PackedFormat::Scale::F32) return 128;
  const bool is_wide = f.scale == PackedFormat::Scale::Wide || f.stored_words != 0;
  return is_wide || has_super_blocks(f) ? 256 : kBlockCols;
}

constexpr std::int64_t chunk_header_bytes(PackedFormat f) {
  if (f.scale == PackedFormat::Scale::None) return 0;
  if (f.scale == PackedFormat::Scale::F32) return kPanelRows * std::int64_t{sizeof(float)};
  const int scales_and_mins = f.has_min ? 2 : 1;
  const int chunk_bytes_per_row = f.scale == PackedFormat::Scale::E8M0 ? 1 : 2 * scales_and_mins;
  const int group_bytes_per_row = f.scale == PackedFormat::Scale::Nibbles ? 1 : scales_and_mins;
  const int num_groups = has_super_blocks(f) ? 256 / f.group : 0;
  return kPanelRows * (chunk_bytes_per_row + num_groups * group_bytes_per_row);
}

// Bytes of the codes of a block: 32 columns of 16 rows. Not for types with stored words.
constexpr std::int64_t block_code_bytes(PackedFormat f) {
  return kPanelRows * kBlockCols * f.bits / 8;
}

constexpr std::int64_t chunk_bytes(PackedFormat f) {
  if (f.stored_words != 0) return chunk_header_bytes(f) + 4 * kPanelRows * f.stored_words;
  return chunk_header_bytes(f) + chunk_cols(f) / kBlockCols * block_code_bytes(f);
}

constexpr std::int64_t panel_bytes(PackedFormat f, std::int64_t cols) {
  return cols / chunk_cols(f) * chunk_bytes(f);
}

// Bytes of a packed matrix; the last panel is padded to 16 rows. `type` has a packed layout and
// cols is a multiple of its chunk.
constexpr std::int64_t packed_bytes(DType type, std::int64_t rows, std::int64_t cols) {
  return (rows + kPanelRows - 1) / kPanelRows * panel_bytes(packed_format(type), cols);
}

// Version of this layout, stored in the files of packed weights: increment it when pack_panel
// writes other bytes (pack_panel_test.cpp checks). The bytes depend on neither threads nor
// instruction set.
inline constexpr std::uint32_t kPanelLayoutVersion = 2;

}  // namespace graft::packing
