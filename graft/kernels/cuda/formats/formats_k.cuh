// K formats: blocks of 256 values with scales per sub-block, and IQ4_XS, TQ1_0, TQ2_0. The layouts
// are in graft/quant/blocks.h; decode() is described in formats_legacy.cuh.

#pragma once

#include "graft/kernels/cuda/formats/formats_legacy.cuh"

namespace graft::kernels::cuda {

// The 2-bit codes of 8 values in the layout of Q2_K, Q3_K and TQ2_0, one per byte.
template <int kAlign>
__device__ uint2 load_2_bits(const std::uint8_t* quants, int run) {
  const uint2 bytes = load_8_bytes<kAlign>(quants + run / 16 * 32 + run % 4 * 8);
  const int shift = run % 16 / 4 * 2;
  return make_uint2(bytes.x >> shift & 0x03030303U, bytes.y >> shift & 0x03030303U);
}

struct FormatQ2K : BlockFormat<DType::Q2_K> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const std::uint32_t scales = block[run / 2];
    const float scale = multiply(load_f16(block + 80), static_cast<float>(scales & 15));
    const float min = multiply(load_f16(block + 82), static_cast<float>(scales >> 4));
    const uint2 q = load_2_bits<4>(block + 16, run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply_subtract(scale, static_cast<float>(byte_of(q, i)), min);
  }
};

struct FormatQ3K : BlockFormat<DType::Q3_K> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const int sub_block = run / 2;
    const float scale = multiply(load_f16(block + 108), scale_of(block + 96, sub_block));
    const uint2 low = load_2_bits<2>(block + 32, run);
    const uint2 high = load_8_bytes<2>(block + run % 4 * 8);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i) {
      const auto q = static_cast<int>(byte_of(low, i) | (byte_of(high, i) >> (run / 4) & 1) << 2);
      out[i] = multiply(scale, static_cast<float>(q - 4));
    }
  }

 private:
  static __device__ float scale_of(const std::uint8_t* packed, int s) {
    const int low = s < 8 ? packed[s] & 15 : packed[s - 8] >> 4;
    const int high = packed[8 + s % 4] >> (2 * (s / 4)) & 3;
    return static_cast<float>((low | high << 4) - 32);
  }
};

// 6-bit scale and minimum of sub-block s of Q4_K and Q5_K.
struct ScaleAndMin {
  int scale;
  int min;
};

__device__ inline ScaleAndMin scale_and_min(const std::uint8_t* packed, int s) {
  if (s < 4) return {packed[s] & 63, packed[s + 4] & 63};
  return {(packed[s + 4] & 15) | packed[s - 4] >> 6 << 4, packed[s + 4] >> 4 | packed[s] >> 6 << 4};
}

// The nibbles of 8 values of a sub-block of 32; sub-blocks 2 g and 2 g + 1 share the same bytes.
__device__ inline uint2 load_k_nibbles(const std::uint8_t* quants, int run) {
  const int sub_block = run / 4;
  const uint2 bytes = load_8_bytes<8>(quants + sub_block / 2 * 32 + run % 4 * 8);
  const int shift = sub_block % 2 * 4;
  return make_uint2(bytes.x >> shift & 0x0f0f0f0fU, bytes.y >> shift & 0x0f0f0f0fU);
}

struct FormatQ4K : BlockFormat<DType::Q4_K> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const ScaleAndMin factors = scale_and_min(block + 4, run / 4);
    const float scale = multiply(load_f16(block), static_cast<float>(factors.scale));
    const float min = multiply(load_f16(block + 2), static_cast<float>(factors.min));
    const uint2 q = load_k_nibbles(block + 16, run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply_subtract(scale, static_cast<float>(byte_of(q, i)), min);
  }
};

struct FormatQ5K : BlockFormat<DType::Q5_K> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const ScaleAndMin factors = scale_and_min(block + 4, run / 4);
    const float scale = multiply(load_f16(block), static_cast<float>(factors.scale));
    const float min = multiply(load_f16(block + 2), static_cast<float>(factors.min));
    const uint2 low = load_k_nibbles(block + 48, run);
    const uint2 high = load_8_bytes<8>(block + 16 + run % 4 * 8);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i) {
      const std::uint32_t q = byte_of(low, i) | (byte_of(high, i) >> (run / 4) & 1) << 4;
      out[i] = multiply_subtract(scale, static_cast<float>(q), min);
    }
  }
};

struct FormatQ6K : BlockFormat<DType::Q6_K> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const int s = run / 2;
    const auto scale_q = static_cast<std::int8_t>(block[192 + s]);
    const float scale = multiply(load_f16(block + 208), static_cast<float>(scale_q));
    const uint2 low = load_8_bytes<2>(block + run / 16 * 64 + run % 8 * 8);
    const uint2 high = load_8_bytes<2>(block + 128 + run / 16 * 32 + run % 4 * 8);
    const int low_shift = s % 8 / 4 * 4;
    const int high_shift = s % 8 / 2 * 2;
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i) {
      const std::uint32_t q =
          (byte_of(low, i) >> low_shift & 15) | (byte_of(high, i) >> high_shift & 3) << 4;
      out[i] = multiply(scale, static_cast<float>(static_cast<int>(q) - 32));
    }
  }
};

struct FormatQ8K : BlockFormat<DType::Q8_K> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const float d = *reinterpret_cast<const float*>(block);
    const uint2 q = load_8_bytes<4>(block + 4 + kRun * run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(d, static_cast<float>(signed_byte_of(q, i)));
  }
};

struct FormatIq4Xs : BlockFormat<DType::IQ4_XS> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const int s = run / 4;
    const int low = block[4 + s / 2] >> (s % 2 * 4) & 15;
    const int high = static_cast<int>(load_u16(block + 2)) >> (2 * s) & 3;
    const float scale = multiply(load_f16(block), static_cast<float>((low | high << 4) - 32));
    const uint2 q = load_nibbles<8>(block + 8 + 16 * s, run % 4);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(scale, Iq4Values::value(byte_of(q, i)));
  }
};

struct FormatTq10 : BlockFormat<DType::TQ1_0> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const float d = load_f16(block + 52);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(static_cast<float>(trit(block, kRun * run + i) - 1), d);
  }

 private:
  // Bytes 0 … 31 and 32 … 47 hold five base-3 digits each, bytes 48 … 51 hold four.
  static __device__ int trit(const std::uint8_t* quants, int i) {
    int byte = i % 32;
    int digit = i / 32;
    if (i >= 240) {
      byte = 48 + i % 4;
      digit = (i - 240) / 4;
    } else if (i >= 160) {
      byte = 32 + i % 16;
      digit = (i - 160) / 16;
    }
    int power = 1;
    for (int k = 0; k < digit; ++k)
      power *= 3;
    return (quants[byte] * power & 255) * 3 >> 8;
  }
};

struct FormatTq20 : BlockFormat<DType::TQ2_0> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const float d = load_f16(block + 64);
    const uint2 q = load_2_bits<2>(block, run);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(static_cast<float>(static_cast<int>(byte_of(q, i)) - 1), d);
  }
};

}  // namespace graft::kernels::cuda
