// Block layouts of the quantized types as stored in files, little-endian. Packed structs: a block
// may have any address. Each comment gives the value x of one element; q is its stored code.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/tensor/dtype.h"

namespace graft::quant {

using F16Bits = std::uint16_t;

#define GRAFT_PACKED __attribute__((packed))

// x = (q - 8) d. Byte i holds q[i] low and q[i + 16] high, as in every type of 32 values below.
struct GRAFT_PACKED BlockQ40 {
  F16Bits d;
  std::uint8_t quants[16];
};

// x = q d + m
struct GRAFT_PACKED BlockQ41 {
  F16Bits d;
  F16Bits m;
  std::uint8_t quants[16];
};

// x = (q - 16) d; bit i of `high` is the fifth bit of q[i]
struct GRAFT_PACKED BlockQ50 {
  F16Bits d;
  std::uint32_t high;
  std::uint8_t quants[16];
};

// x = q d + m
struct GRAFT_PACKED BlockQ51 {
  F16Bits d;
  F16Bits m;
  std::uint32_t high;
  std::uint8_t quants[16];
};

// x = q d
struct GRAFT_PACKED BlockQ80 {
  F16Bits d;
  std::int8_t quants[32];
};

// x = q d; s = d sum(q), for dot products with types that have a minimum
struct GRAFT_PACKED BlockQ81 {
  F16Bits d;
  F16Bits s;
  std::int8_t quants[32];
};

// x = d scale q - dmin min, 16 sub-blocks of 16. Scale in the low, min in the high nibble.
// Byte 32 h + i holds, two bits each, q[128 h + i + 0, 32, 64, 96].
struct GRAFT_PACKED BlockQ2K {
  std::uint8_t scales[16];
  std::uint8_t quants[64];
  F16Bits d;
  F16Bits dmin;
};

// x = d (scale - 32) (q - 4), 16 sub-blocks of 16. quants hold the low two bits, laid out as in
// Q2_K; bit b of high[i] is the third bit of q[32 b + i]. Scales of 6 bits: low nibbles of scale
// s (s < 8) and s + 8 in byte s, then two high bits of scale s at bit 2 (s / 4) of byte 8 + s % 4.
struct GRAFT_PACKED BlockQ3K {
  std::uint8_t high[32];
  std::uint8_t quants[64];
  std::uint8_t scales[12];
  F16Bits d;
};

// x = d scale q - dmin min, 8 sub-blocks of 32. Byte 32 g + i holds q[64 g + i] low and
// q[64 g + 32 + i] high. Scales and mins of 6 bits: of sub-blocks s < 4 in bytes s and s + 4; of
// sub-blocks s >= 4 the low nibbles in byte s + 4, the high bits on top of bytes s - 4 and s.
struct GRAFT_PACKED BlockQ4K {
  F16Bits d;
  F16Bits dmin;
  std::uint8_t scales[12];
  std::uint8_t quants[128];
};

// As Q4_K; bit s of high[i] is the fifth bit of value i of sub-block s.
struct GRAFT_PACKED BlockQ5K {
  F16Bits d;
  F16Bits dmin;
  std::uint8_t scales[12];
  std::uint8_t high[32];
  std::uint8_t quants[128];
};

// x = d scale (q - 32), 16 sub-blocks of 16. For each half h of 128 values: low[64 h + i] holds the
// low nibbles of q[i] and q[i + 64] (i < 64); high[32 h + i] holds, two bits each, the upper bits
// of q[i + 0, 32, 64, 96].
struct GRAFT_PACKED BlockQ6K {
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::int8_t scales[16];
  F16Bits d;
};

// x = q d; sums[s] is the sum of quants [16 s, 16 s + 16)
struct GRAFT_PACKED BlockQ8K {
  float d;
  std::int8_t quants[256];
  std::int16_t sums[16];
};

// The grid types: each group of eight (IQ3: four) values is one row of a table in iq_grids.h; g is
// the grid value.

// x = d (2 scale + 1) (g + delta), delta = +-1/8. Per 32 values: high holds 4 x 3 upper bits of the
// row indices, the scale in bits 12..14, the sign of delta in bit 15.
struct GRAFT_PACKED BlockIQ1S {
  F16Bits d;
  std::uint8_t quants[32];
  std::uint16_t high[8];
};

// As IQ1_S with a scale per 16 and a delta per 8 values. The f16 d is spread over the top nibbles
// of the four scale words.
struct GRAFT_PACKED BlockIQ1M {
  std::uint8_t quants[32];
  std::uint8_t high[16];
  std::uint16_t scales[4];
};

// x = d (scale + 1/2) / 4 g. Per 32 values two words: four 8-bit row indices; 4 x 7 sign bits and a
// 4-bit scale.
struct GRAFT_PACKED BlockIQ2XXS {
  F16Bits d;
  std::uint32_t quants[8][2];
};

// As IQ2_XXS with a 9-bit row index and 7 sign bits in each word, and a scale per 16 values.
struct GRAFT_PACKED BlockIQ2XS {
  F16Bits d;
  std::uint16_t quants[32];
  std::uint8_t scales[8];
};

// As IQ2_XS with 10-bit row indices and eight independent sign bits.
struct GRAFT_PACKED BlockIQ2S {
  F16Bits d;
  std::uint8_t quants[32];
  std::uint8_t signs[32];
  std::uint8_t high[8];
  std::uint8_t scales[8];
};

// x = d (scale + 1/2) / 2 g. Per 32 values eight row indices and a word of 4 x 7 sign bits and a
// 4-bit scale.
struct GRAFT_PACKED BlockIQ3XXS {
  F16Bits d;
  std::uint8_t quants[64];
  std::uint32_t signs[8];
};

// x = d (2 scale + 1) g, 9-bit row indices, independent sign bits.
struct GRAFT_PACKED BlockIQ3S {
  F16Bits d;
  std::uint8_t quants[64];
  std::uint8_t high[8];
  std::uint8_t signs[32];
  std::uint8_t scales[4];
};

// x = d v[q], v from kIq4Values
struct GRAFT_PACKED BlockIQ4NL {
  F16Bits d;
  std::uint8_t quants[16];
};

// x = d (scale - 32) v[q], 8 sub-blocks of 32. The 6-bit scales: nibbles in low, two bits in high.
struct GRAFT_PACKED BlockIQ4XS {
  F16Bits d;
  std::uint16_t scales_high;
  std::uint8_t scales_low[4];
  std::uint8_t quants[128];
};

// x = (trit - 1) d. A byte b holds five trits as a fixed-point fraction: trit k is the integer part
// of 3 (b 3^k mod 256) / 256. Bytes 0..31 hold values 0..159, 32..47 values 160..239, high the
// rest.
struct GRAFT_PACKED BlockTQ10 {
  std::uint8_t quants[48];
  std::uint8_t high[4];
  F16Bits d;
};

// x = (q - 1) d, laid out as in Q2_K
struct GRAFT_PACKED BlockTQ20 {
  std::uint8_t quants[64];
  F16Bits d;
};

// x = 2^(e - 128) v[q], v from kFp4Values (twice the E2M1 value)
struct GRAFT_PACKED BlockMXFP4 {
  std::uint8_t e;
  std::uint8_t quants[16];
};

// x = s / 2 v[q], one unsigned E4M3 scale s per 16 values; byte i of a sub-block holds its q[i] low
// and q[i + 8] high.
struct GRAFT_PACKED BlockNVFP4 {
  std::uint8_t scales[4];
  std::uint8_t quants[32];
};

// x = bit ? d : -d
struct GRAFT_PACKED BlockQ10 {
  F16Bits d;
  std::uint8_t quants[16];
};

// x = (q - 1) d; byte i holds q[4 i .. 4 i + 3], two bits each
struct GRAFT_PACKED BlockQ20 {
  F16Bits d;
  std::uint8_t quants[16];
};

#undef GRAFT_PACKED

template <class Block>
constexpr bool has_size_of(DType type) {
  return sizeof(Block) == static_cast<std::size_t>(info(type).block_bytes) && alignof(Block) == 1;
}

static_assert(has_size_of<BlockQ40>(DType::Q4_0) && has_size_of<BlockQ41>(DType::Q4_1));
static_assert(has_size_of<BlockQ50>(DType::Q5_0) && has_size_of<BlockQ51>(DType::Q5_1));
static_assert(has_size_of<BlockQ80>(DType::Q8_0) && has_size_of<BlockQ81>(DType::Q8_1));
static_assert(has_size_of<BlockQ2K>(DType::Q2_K) && has_size_of<BlockQ3K>(DType::Q3_K));
static_assert(has_size_of<BlockQ4K>(DType::Q4_K) && has_size_of<BlockQ5K>(DType::Q5_K));
static_assert(has_size_of<BlockQ6K>(DType::Q6_K) && has_size_of<BlockQ8K>(DType::Q8_K));
static_assert(has_size_of<BlockIQ1S>(DType::IQ1_S) && has_size_of<BlockIQ1M>(DType::IQ1_M));
static_assert(has_size_of<BlockIQ2XXS>(DType::IQ2_XXS) && has_size_of<BlockIQ2XS>(DType::IQ2_XS));
static_assert(has_size_of<BlockIQ2S>(DType::IQ2_S) && has_size_of<BlockIQ3XXS>(DType::IQ3_XXS));
static_assert(has_size_of<BlockIQ3S>(DType::IQ3_S) && has_size_of<BlockIQ4NL>(DType::IQ4_NL));
static_assert(has_size_of<BlockIQ4XS>(DType::IQ4_XS) && has_size_of<BlockTQ10>(DType::TQ1_0));
static_assert(has_size_of<BlockTQ20>(DType::TQ2_0) && has_size_of<BlockMXFP4>(DType::MXFP4));
static_assert(has_size_of<BlockNVFP4>(DType::NVFP4) && has_size_of<BlockQ10>(DType::Q1_0));
static_assert(has_size_of<BlockQ20>(DType::Q2_0));

// Values of the 4-bit codes of IQ4_NL and IQ4_XS, and of MXFP4 and NVFP4 (twice the E2M1 value).
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::int8_t kFp4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                               0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace graft::quant
