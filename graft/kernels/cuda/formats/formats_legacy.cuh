// Formats of small blocks with one scale (Q4_0 … Q8_1, IQ4_NL, MXFP4, NVFP4, Q1_0, Q2_0). The
// layouts are in graft/quant/blocks.h. decode() writes values [8 run, 8 run + 8) of a block;
// products and sums are rounded separately, as in the codecs.

#pragma once

#include <cstddef>

#include "graft/kernels/cuda/formats/formats_plain.cuh"
#include "graft/quant/blocks.h"

namespace graft::kernels::cuda {

template <DType kDType>
struct BlockFormat {
  static constexpr DType kType = kDType;
  static constexpr bool kPlain = false;
  static constexpr int kBlockValues = info(kDType).block_elems;
  static constexpr int kBlockBytes = info(kDType).block_bytes;
  // Alignment of every block, the first one being 16-byte aligned.
  static constexpr int kAlign = kBlockBytes % 16 == 0  ? 16
                                : kBlockBytes % 8 == 0 ? 8
                                : kBlockBytes % 4 == 0 ? 4
                                : kBlockBytes % 2 == 0 ? 2
                                                       : 1;
};

__device__ inline float multiply(float a, float b) {
  return __fmul_rn(a, b);
}

__device__ inline float multiply_add(float a, float b, float c) {
  return __fadd_rn(__fmul_rn(a, b), c);
}

__device__ inline float multiply_subtract(float a, float b, float c) {
  return __fsub_rn(__fmul_rn(a, b), c);
}

// The nibbles of values [8 run, 8 run + 8) of a block of 32, one per byte.
template <int kAlign>
__device__ uint2 load_nibbles(const std::uint8_t* quants, int run) {
  const uint2 bytes = load_8_bytes<kAlign>(quants + run % 2 * 8);
  const int shift = run / 2 * 4;
  return make_uint2(bytes.x >> shift & 0x0f0f0f0fU, bytes.y >> shift & 0x0f0f0f0fU);
}

struct FormatQ40 : BlockFormat<DType::Q4_0> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const float d = load_f16(block);
    const uint2 q = load_nibbles<2>(block + 2, run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(static_cast<float>(static_cast<int>(byte_of(q, i)) - 8), d);
  }
};

struct FormatQ41 : BlockFormat<DType::Q4_1> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const float d = load_f16(block);
    const float m = load_f16(block + 2);
    const uint2 q = load_nibbles<4>(block + 4, run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply_add(static_cast<float>(byte_of(q, i)), d, m);
  }
};

struct FormatQ50 : BlockFormat<DType::Q5_0> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const float d = load_f16(block);
    const std::uint32_t high = load_u32(block + 2) >> (kRun * run);
    const uint2 q = load_nibbles<2>(block + 6, run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i) {
      const auto code = static_cast<int>(byte_of(q, i) | (high >> i & 1) << 4);
      out[i] = multiply(static_cast<float>(code - 16), d);
    }
  }
};

struct FormatQ51 : BlockFormat<DType::Q5_1> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const float d = load_f16(block);
    const float m = load_f16(block + 2);
    const std::uint32_t high = load_u32(block + 4) >> (kRun * run);
    const uint2 q = load_nibbles<8>(block + 8, run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply_add(static_cast<float>(byte_of(q, i) | (high >> i & 1) << 4), d, m);
  }
};

// kOffset: byte offset of the quants.
template <DType kDType, int kOffset, int kQuantAlign>
struct FormatQ8 : BlockFormat<kDType> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const float d = load_f16(block);
    const uint2 q = load_8_bytes<kQuantAlign>(block + kOffset + kRun * run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(static_cast<float>(signed_byte_of(q, i)), d);
  }
};
using FormatQ80 = FormatQ8<DType::Q8_0, 2, 2>;
using FormatQ81 = FormatQ8<DType::Q8_1, 4, 4>;

// Four of kIq4Values, the first in the lowest byte.
constexpr std::uint32_t packed_iq4_values(int first) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    const auto byte = static_cast<std::uint8_t>(quant::kIq4Values[first + i]);
    word |= static_cast<std::uint32_t>(byte) << (8 * i);
  }
  return word;
}

// The values of 4-bit codes of IQ4. Selected among constants: in a table in memory every lane would
// load another address.
struct Iq4Values {
  static __device__ float value(std::uint32_t code) {
    const std::uint32_t word =
        code < 8 ? (code < 4 ? kFrom0 : kFrom4) : (code < 12 ? kFrom8 : kFrom12);
    return static_cast<float>(static_cast<std::int8_t>(word >> (code % 4 * 8)));
  }

 private:
  static constexpr std::uint32_t kFrom0 = packed_iq4_values(0);
  static constexpr std::uint32_t kFrom4 = packed_iq4_values(4);
  static constexpr std::uint32_t kFrom8 = packed_iq4_values(8);
  static constexpr std::uint32_t kFrom12 = packed_iq4_values(12);
};

// kFp4Values: 0 1 2 3 4 6 8 12 and their negatives.
struct Fp4Values {
  static __device__ float value(std::uint32_t code) {
    constexpr std::uint32_t kLow = 0x03020100U;
    constexpr std::uint32_t kHigh = 0x0c080604U;
    const std::uint32_t word = (code & 4) == 0 ? kLow : kHigh;
    const auto magnitude = static_cast<float>(word >> (code % 4 * 8) & 255);
    // No negative zero, as in the codec's table.
    return (code & 8) != 0 && magnitude != 0.0F ? -magnitude : magnitude;
  }
};

struct FormatIq4Nl : BlockFormat<DType::IQ4_NL> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const float d = load_f16(block);
    const uint2 q = load_nibbles<2>(block + 2, run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(d, Iq4Values::value(byte_of(q, i)));
  }
};

struct FormatMxfp4 : BlockFormat<DType::MXFP4> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const std::uint32_t e = block[0];
    // Half the scale, since the table values are doubled.
    const float d = __uint_as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23);
    const uint2 q = load_nibbles<1>(block + 1, run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(Fp4Values::value(byte_of(q, i)), d);
  }
};

struct FormatNvfp4 : BlockFormat<DType::NVFP4> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const int sub_block = run / 2;
    const float d = half_scale(block[sub_block]);
    const uint2 bytes = load_8_bytes<4>(block + 4 + 8 * sub_block);
    const int shift = run % 2 * 4;
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(Fp4Values::value(byte_of(bytes, i) >> shift & 15), d);
  }

 private:
  // UE4M3 scale: the sign bit is ignored; 0x7f is 0 and 0xff is 480, as in the codec.
  static __device__ float half_scale(std::uint32_t code) {
    if (code == 0x7f) return 0.0F;
    if (code == 0xff) return 240.0F;
    return 0.5F * e4m3_to_float(code & 0x7f);
  }
};

struct FormatQ10 : BlockFormat<DType::Q1_0> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const std::uint32_t d = __float_as_uint(load_f16(block));
    const std::uint32_t minus = ~static_cast<std::uint32_t>(block[2 + run]);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = __uint_as_float(d ^ (minus >> i & 1) << 31);
  }
};

struct FormatQ20 : BlockFormat<DType::Q2_0> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const float d = load_f16(block);
    const std::uint32_t codes = load_u16(block + 2 + 2 * run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(static_cast<float>(static_cast<int>(codes >> (2 * i) & 3) - 1), d);
  }
};

}  // namespace graft::kernels::cuda
