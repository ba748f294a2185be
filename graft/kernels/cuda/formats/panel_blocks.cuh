// One row of 32 columns of a panel (graft/packing/panel_layout.h): a thread loads the codes and
// scales, then dequantizes runs of 8 values. Products and sums are rounded separately, as in the
// codecs.

#pragma once

#include <type_traits>

#include "graft/kernels/cuda/formats/formats_legacy.cuh"
#include "graft/kernels/cuda/formats/panel_layout.cuh"
#include "graft/kernels/cuda/formats/panel_words.cuh"
#include "graft/quant/blocks.h"

namespace graft::kernels::cuda {

// values[code] + offset for 16 codes, four per word.
struct CodeTable {
  std::uint32_t words[4];
};

constexpr CodeTable code_table(const std::int8_t* values, int offset) {
  CodeTable table{};
  for (int i = 0; i < 16; ++i) {
    const auto byte = static_cast<std::uint8_t>(values[i] + offset);
    table.words[i / 4] |= static_cast<std::uint32_t>(byte) << (8 * (i % 4));
  }
  return table;
}

// Looks up four codes, one per byte, each below 16.
__device__ inline std::uint32_t look_up(CodeTable table, std::uint32_t codes) {
  // The four codes in the low 16 bits: a selector of __byte_perm takes 3 bits of each.
  const std::uint32_t selector = __byte_perm(codes | codes >> 4, 0, 0x4420);
  const std::uint32_t low = __byte_perm(table.words[0], table.words[1], selector & 0x7777U);
  const std::uint32_t high = __byte_perm(table.words[2], table.words[3], selector & 0x7777U);
  return __byte_perm(low, high, 0x3210U | (selector & 0x8888U) >> 1);
}

// Byte i of the word, minus the offset. 2^23 plus a byte is a float with that byte as lowest bits.
template <int kOffset>
__device__ float byte_value(std::uint32_t word, int i) {
  constexpr std::uint32_t kTwoTo23 = 0x4b000000U;
  const auto selector = static_cast<std::uint32_t>(0x7650 + i);
  return __uint_as_float(__byte_perm(word, kTwoTo23, selector)) - (8388608.0F + kOffset);
}

// One row of a block of 32 columns of an integer type.
template <DType kType>
class PanelIntegers {
 public:
  __device__ PanelIntegers(const std::uint8_t* chunk, int block, int row) {
    load_codes(chunk + Layout::kHeaderBytes + block * Layout::kBlockBytes, row);
    load_scales(chunk, block, row);
  }

  // Columns [8 run, 8 run + 8).
  __device__ void decode(int run, float (&out)[kRun]) const {
    const int group = run * kRun / kFormat.group;
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i) {
      const float code = byte_value<kFormat.offset>(words_[2 * run + i / 4], i % 4);
      out[i] = multiply(code, scales_[group]);
      if constexpr (kFormat.has_min) out[i] = __fsub_rn(out[i], mins_[group]);
    }
  }

 private:
  using Layout = PanelLayout<kType>;
  static constexpr PackedFormat kFormat = Layout::kFormat;
  static constexpr CodeTable kIq4Codes = code_table(quant::kIq4Values, kFormat.offset);
  static constexpr CodeTable kFp4Codes = code_table(quant::kFp4Values, kFormat.offset);

  // words_[i] = columns 4 i .. 4 i + 3.
  __device__ void load_codes(const std::uint8_t* block, int row) {
    constexpr int kBits = kFormat.bits;
    constexpr int kLowBits = kBits >= 8 ? 8 : kBits >= 4 ? 4 : 2;
    constexpr std::uint32_t kLowMask = 0x01010101U * ((1U << kLowBits) - 1);
    std::uint32_t lines[kBits];
    GRAFT_UNROLL
    for (int i = 0; i < kBits; ++i)
      lines[i] = load_line(block, i, row);
    GRAFT_UNROLL
    for (int i = 0; i < 8; ++i) {
      if constexpr (kLowBits == 8) {
        words_[i] = lines[i];
      } else if constexpr (kLowBits == 4) {
        words_[i] = lines[i % 4] >> (i / 4 * 4) & kLowMask;
      } else {
        words_[i] = lines[i / 4] >> (i % 4 * 2) & kLowMask;
      }
      if constexpr (kBits - kLowBits == 1) {
        words_[i] |= (lines[kLowBits] >> i & 0x01010101U) << kLowBits;
      } else if constexpr (kBits - kLowBits == 2) {
        words_[i] |= (lines[kLowBits + i / 4] >> (i % 4 * 2) & 0x03030303U) << kLowBits;
      }
      if constexpr (kFormat.codes == PackedFormat::Codes::Iq4) {
        words_[i] = look_up(kIq4Codes, words_[i]);
      } else if constexpr (kFormat.codes == PackedFormat::Codes::Fp4) {
        words_[i] = look_up(kFp4Codes, words_[i]);
      }
    }
  }

  __device__ void load_scales(const std::uint8_t* chunk, int block, int row) {
    if constexpr (kFormat.scale == PackedFormat::Scale::E8M0) {
      const std::uint32_t e = chunk[row];
      // Half the scale, since the table values are doubled.
      scales_[0] = __uint_as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23);
      return;
    }
    const float d = load_f16(chunk + 2 * row);
    const float dmin = kFormat.has_min ? load_f16(chunk + 2 * (kPanelRows + row)) : 0.0F;
    const std::uint8_t* bytes = chunk + 2 * kPanelRows * (kFormat.has_min ? 2 : 1) + row;
    GRAFT_UNROLL
    for (int i = 0; i < Layout::kBlockGroups; ++i) {
      const int group = block * Layout::kBlockGroups + i;
      scales_[i] = d;
      mins_[i] = dmin;
      if constexpr (kFormat.scale == PackedFormat::Scale::Nibbles) {
        const std::uint32_t nibbles = bytes[kPanelRows * group];
        scales_[i] = multiply(d, static_cast<float>(nibbles & 15));
        mins_[i] = multiply(dmin, static_cast<float>(nibbles >> 4));
      } else if constexpr (Layout::kHasSuperBlocks) {
        scales_[i] = multiply(d, signed_byte(bytes + kPanelRows * group));
        if constexpr (kFormat.has_min) {
          mins_[i] =
              multiply(dmin, signed_byte(bytes + kPanelRows * (Layout::kChunkGroups + group)));
        }
      }
    }
  }

  static __device__ float signed_byte(const std::uint8_t* from) {
    return static_cast<float>(static_cast<std::int8_t>(*from));
  }

  std::uint32_t words_[8];
  float scales_[Layout::kBlockGroups];
  float mins_[Layout::kBlockGroups];
};

// Two FP8 codes moved to the upper bytes of two halves.
__device__ inline std::uint32_t upper_bytes(std::uint32_t codes) {
  return __byte_perm(codes, 0, 0x1404);
}

__device__ inline float2 halves_to_floats(std::uint32_t pair) {
  return make_float2(f16_to_float(pair & 0xffff), f16_to_float(pair >> 16));
}

// The values of a column pair of a float type: bf16 except for FP8.
template <DType kType>
struct PanelPair {
  static __device__ float2 values(std::uint32_t pair) {
    return make_float2(bf16_to_float(pair), __uint_as_float(pair & 0xffff0000U));
  }
};

template <>
struct PanelPair<DType::F8_E5M2> {
  static __device__ float2 values(std::uint32_t pair) {
    return halves_to_floats(upper_bytes(pair));
  }
};

// As e4m3_to_float(), without branches.
template <>
struct PanelPair<DType::F8_E4M3> {
  static __device__ float2 values(std::uint32_t pair) {
    const std::uint32_t codes = upper_bytes(pair);
    const float2 scaled = halves_to_floats((codes & 0x80008000U) | (codes & 0x7f007f00U) >> 1);
    return make_float2(value(scaled.x), value(scaled.y));
  }

 private:
  // The code of NaN becomes 480, the only magnitude above 448.
  static __device__ float value(float scaled) {
    const float value = scaled * 256.0F;
    return fabsf(value) > 448.0F ? __uint_as_float(0x7fc00000U) : value;
  }
};

// One row of a block of 32 columns of a float type: column pairs.
template <DType kType>
class PanelFloats {
 public:
  __device__ PanelFloats(const std::uint8_t* chunk, int block, int row) {
    const std::uint8_t* codes = chunk + Layout::kHeaderBytes + block * Layout::kBlockBytes;
    GRAFT_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      const std::uint8_t* pair = codes + kPairBytes * (kPanelRows * i + row);
      if constexpr (kPairBytes == 4) {
        pairs_[i] = load_word(pair);
      } else {
        pairs_[i] = load_u16(pair);
      }
    }
    if constexpr (kHasScale) scale_ = __uint_as_float(load_word(chunk + 4 * row));
  }

  // Columns [8 run, 8 run + 8).
  __device__ void decode(int run, float (&out)[kRun]) const {
    GRAFT_UNROLL
    for (int i = 0; i < kRun; i += 2) {
      const float2 values = PanelPair<kType>::values(pairs_[(run * kRun + i) / 2]);
      out[i] = kHasScale ? multiply(values.x, scale_) : values.x;
      out[i + 1] = kHasScale ? multiply(values.y, scale_) : values.y;
    }
  }

 private:
  using Layout = PanelLayout<kType>;
  static constexpr int kPairs = kPanelBlockCols / 2;
  static constexpr int kPairBytes = 2 * Layout::kFormat.bits / 8;
  static constexpr bool kHasScale = Layout::kFormat.scale == PackedFormat::Scale::F32;

  std::uint32_t pairs_[kPairs];
  float scale_ = 1.0F;
};

template <DType kType>
using PanelCodes = std::conditional_t<PanelLayout<kType>::kFormat.stored_words != 0,
                                      PanelWords<kType>,
                                      PanelIntegers<kType>>;

template <DType kType>
using PanelBlock =
    std::conditional_t<PanelLayout<kType>::kFormat.as_bf16, PanelFloats<kType>, PanelCodes<kType>>;

}  // namespace graft::kernels::cuda
