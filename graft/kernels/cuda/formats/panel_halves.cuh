// One row of a block of 32 columns of a panel (graft/packing/panel_layout.h) as F16 operands of
// mma.m16n8k16. The panel lies in shared memory; a block is dequantized four columns at a time.
//
// A quad is columns 4 i .. 4 i + 3 of the block as two words: columns (4 i, 4 i + 2) and
// (4 i + 1, 4 i + 3), the order in which bytes of codes become halves with one instruction. Quads i
// and i + 4 are read together: codes of 4 bits share a word. The rows of x have the same order
// (PanelRows).

#pragma once

#include <cuda_fp16.h>

#include "graft/kernels/cuda/formats/panel_blocks.cuh"

namespace graft::kernels::cuda {

struct HalfQuad {
  std::uint32_t even;  // columns 4 i, 4 i + 2
  std::uint32_t odd;   // columns 4 i + 1, 4 i + 3
};

__device__ inline std::uint32_t half_bits(__half2 pair) {
  return reinterpret_cast<const std::uint32_t&>(pair);
}

__device__ inline __half2 half_pair(std::uint32_t bits) {
  return reinterpret_cast<const __half2&>(bits);
}

__device__ inline __half2 half_twice(float value) {
  return __floats2half2_rn(value, value);
}

// (word & mask) | bits in one instruction: with constants the compiler makes two.
__device__ inline std::uint32_t masked_or(std::uint32_t word,
                                          std::uint32_t mask,
                                          std::uint32_t bits) {
  std::uint32_t result = 0;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
  return result;
}

__device__ inline std::uint32_t word_at(const std::uint8_t* from) {
  return *reinterpret_cast<const std::uint32_t*>(from);
}

// Values are weights times this, so that small scales keep their precision in F16. Weights up to
// 4094 fit; larger ones become infinite.
inline constexpr float kPanelHalfFactor = 16.0F;

template <DType kType>
class PanelHalves {
 public:
  // chunk: in shared memory. Without a block all values are 0.
  __device__ PanelHalves(const std::uint8_t* chunk, int block, int row, bool is_there)
      : codes_(chunk + Layout::kHeaderBytes + block * Layout::kBlockBytes + 4 * row) {
    load_scales(chunk, block, row);
    GRAFT_UNROLL
    for (int i = 0; i < Layout::kBlockGroups; ++i) {
      scales_[i] = is_there ? scales_[i] : half_pair(0);
      mins_[i] = is_there ? mins_[i] : half_pair(0);
    }
  }

  // Quads i and i + 4, i < 4.
  __device__ void quads(int i, HalfQuad (&out)[2]) const {
    constexpr int kLastGroup = Layout::kBlockGroups - 1;
    if constexpr (kIsNibbles) {
      const std::uint32_t even = line(i);
      const std::uint32_t odd = even >> 8;
      out[0] = {.even = low_nibbles(even), .odd = low_nibbles(odd)};
      out[1] = {.even = high_nibbles(even), .odd = high_nibbles(odd)};
      return;
    }
    std::uint32_t words[2];
    load_codes(i, words);
    GRAFT_UNROLL
    for (int upper = 0; upper < 2; ++upper) {
      out[upper] = {.even = value(__byte_perm(words[upper], kHalf1024, 0x4240), upper * kLastGroup),
                    .odd = value(__byte_perm(words[upper], kHalf1024, 0x4341), upper * kLastGroup)};
    }
  }

 private:
  using Layout = PanelLayout<kType>;
  static constexpr PackedFormat kFormat = Layout::kFormat;
  static constexpr CodeTable kIq4Codes = code_table(quant::kIq4Values, kFormat.offset);
  static constexpr CodeTable kFp4Codes = code_table(quant::kFp4Values, kFormat.offset);
  // The upper bytes of the half 1024, whose lowest bits count units: 0x6400 + byte is 1024 + byte.
  static constexpr std::uint32_t kHalf1024 = 0x64646464U;

  static constexpr bool kIsNibbles =
      kFormat.bits == 4 && kFormat.codes == PackedFormat::Codes::Plain;
  // Bits 0..3 of both halves of a word. Logic and shifts have half the rate of arithmetic, so one
  // instruction makes the halves 1024 + code.
  __device__ std::uint32_t low_nibbles(std::uint32_t word) const {
    return scaled(__hsub2(half_pair(masked_or(word, 0x000f000fU, 0x64006400U)),
                          __float2half2_rn(1024.0F + kFormat.offset)));
  }
  // Bits 4..7: halves 64 + code.
  __device__ std::uint32_t high_nibbles(std::uint32_t word) const {
    return scaled(__hsub2(half_pair(masked_or(word, 0x00f000f0U, 0x54005400U)),
                          __float2half2_rn(64.0F + kFormat.offset)));
  }
  __device__ std::uint32_t scaled(__half2 code) const {
    if constexpr (kFormat.has_min)
      return half_bits(__hfma2(code, scales_[0], mins_[0]));
    else
      return half_bits(__hmul2(code, scales_[0]));
  }

  __device__ std::uint32_t line(int index) const {
    return word_at(codes_ + kPanelLineBytes * index);
  }

  __device__ void load_scales(const std::uint8_t* chunk, int block, int row) {
    if constexpr (kFormat.scale == PackedFormat::Scale::E8M0) {
      // Half the scale, since the table values are doubled.
      const std::uint32_t e = chunk[row];
      scales_[0] =
          half_twice(kPanelHalfFactor * __uint_as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23));
      return;
    }
    const auto* halves = reinterpret_cast<const __half*>(chunk);
    const float d = __half2float(halves[row]);
    const float dmin = kFormat.has_min ? __half2float(halves[kPanelRows + row]) : 0.0F;
    const std::uint8_t* bytes = chunk + 2 * kPanelRows * (kFormat.has_min ? 2 : 1) + row +
                                kPanelRows * block * Layout::kBlockGroups;
    GRAFT_UNROLL
    for (int i = 0; i < Layout::kBlockGroups; ++i) {
      const std::uint8_t* byte = bytes + kPanelRows * i;
      float scale = d;
      float min = dmin;
      if constexpr (kFormat.scale == PackedFormat::Scale::Nibbles) {
        scale = d * static_cast<float>(*byte & 15);
        min = dmin * static_cast<float>(*byte >> 4);
      } else if constexpr (Layout::kHasSuperBlocks) {
        scale = d * signed_byte(byte);
        if constexpr (kFormat.has_min)
          min = dmin * signed_byte(byte + kPanelRows * Layout::kChunkGroups);
      }
      scales_[i] = half_twice(kPanelHalfFactor * scale);
      mins_[i] = half_twice(-kPanelHalfFactor * min);
    }
  }

  static __device__ float signed_byte(const std::uint8_t* from) {
    return static_cast<float>(static_cast<std::int8_t>(*from));
  }

  // The codes of columns 4 i .. 4 i + 3 and of those 16 further, one per byte.
  __device__ void load_codes(int i, std::uint32_t (&words)[2]) const {
    constexpr int kBits = kFormat.bits;
    constexpr int kLowBits = kBits >= 8 ? 8 : kBits >= 4 ? 4 : 2;
    if constexpr (kLowBits == 8) {
      words[0] = line(i);
      words[1] = line(i + 4);
    } else if constexpr (kLowBits == 4) {
      const std::uint32_t both = line(i);
      words[0] = both & 0x0f0f0f0fU;
      words[1] = both >> 4 & 0x0f0f0f0fU;
    } else {
      words[0] = line(0) >> (2 * i) & 0x03030303U;
      words[1] = line(1) >> (2 * i) & 0x03030303U;
    }
    if constexpr (kBits - kLowBits == 1) {
      const std::uint32_t high = line(kLowBits) >> i;
      words[0] |= (high & 0x01010101U) << kLowBits;
      words[1] |= (high >> 4 & 0x01010101U) << kLowBits;
    } else if constexpr (kBits - kLowBits == 2) {
      words[0] |= (line(kLowBits) >> (2 * i) & 0x03030303U) << kLowBits;
      words[1] |= (line(kLowBits + 1) >> (2 * i) & 0x03030303U) << kLowBits;
    }
    GRAFT_UNROLL
    for (std::uint32_t& word : words) {
      if constexpr (kFormat.codes == PackedFormat::Codes::Iq4) word = look_up(kIq4Codes, word);
      if constexpr (kFormat.codes == PackedFormat::Codes::Fp4) word = look_up(kFp4Codes, word);
    }
  }

  // 1024 + code to scale * (code - offset) - min. The subtraction is exact.
  __device__ std::uint32_t value(std::uint32_t shifted, int group) const {
    const __half2 base = __float2half2_rn(1024.0F + kFormat.offset);
    const __half2 code = __hsub2(half_pair(shifted), base);
    if constexpr (kFormat.has_min)
      return half_bits(__hfma2(code, scales_[group], mins_[group]));
    else
      return half_bits(__hmul2(code, scales_[group]));
  }

  const std::uint8_t* codes_;
  __half2 scales_[Layout::kBlockGroups];
  __half2 mins_[Layout::kBlockGroups];  // negative
};

}  // namespace graft::kernels::cuda
