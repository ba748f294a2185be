// Loads and conversions shared by formats and kernels.

#pragma once

#include <cmath>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {

// 8 bytes with the widest loads that the alignment allows.
template <int kAlign>
__device__ uint2 load_8_bytes(const std::uint8_t* from) {
  if constexpr (kAlign >= 8) {
    return *reinterpret_cast<const uint2*>(from);
  } else if constexpr (kAlign == 4) {
    const auto* words = reinterpret_cast<const std::uint32_t*>(from);
    return make_uint2(words[0], words[1]);
  } else if constexpr (kAlign == 2) {
    const auto* words = reinterpret_cast<const std::uint16_t*>(from);
    return make_uint2(words[0] | static_cast<std::uint32_t>(words[1]) << 16,
                      words[2] | static_cast<std::uint32_t>(words[3]) << 16);
  } else {
    std::uint32_t words[2] = {0, 0};
    GRAFT_UNROLL
    for (int i = 0; i < 8; ++i)
      words[i / 4] |= static_cast<std::uint32_t>(from[i]) << (i % 4 * 8);
    return make_uint2(words[0], words[1]);
  }
}

__device__ inline std::uint32_t load_u16(const std::uint8_t* from) {
  return *reinterpret_cast<const std::uint16_t*>(from);
}

// 32 bits at an even address.
__device__ inline std::uint32_t load_u32(const std::uint8_t* from) {
  return load_u16(from) | load_u16(from + 2) << 16;
}

__device__ inline std::uint32_t byte_of(uint2 bytes, int i) {
  return (i < 4 ? bytes.x : bytes.y) >> (i % 4 * 8) & 255;
}

__device__ inline int signed_byte_of(uint2 bytes, int i) {
  return static_cast<std::int8_t>(byte_of(bytes, i));
}

__device__ inline float f16_to_float(std::uint32_t code) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(code)));
}

// F16 at an even address.
__device__ inline float load_f16(const std::uint8_t* from) {
  return f16_to_float(load_u16(from));
}

__device__ inline float bf16_to_float(std::uint32_t code) {
  return __uint_as_float(code << 16);
}

__device__ inline std::uint16_t to_bf16(float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

// Round to nearest even; finite values saturate at ±65504.
__device__ inline Half to_half(float value) {
  const Half half = __half_as_ushort(__float2half_rn(value));
  const bool overflowed = (half & 0x7fff) == 0x7c00 && fabsf(value) < INFINITY;
  return overflowed ? static_cast<Half>(half - 1) : half;
}

// Two F16 in one word, `low` in the low half. Values beyond the range become infinities.
__device__ inline std::uint32_t overflowing_half_pair(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return __half_as_ushort(pair.x) | static_cast<std::uint32_t>(__half_as_ushort(pair.y)) << 16;
}

// Not 0 when a half is infinity or NaN: their exponent carries into the sign bit.
__device__ inline std::uint32_t non_finite_halves(std::uint32_t pair) {
  return ((pair & 0x7c007c00U) + 0x04000400U) & 0x80008000U;
}

// Two F16 in one word, `low` in the low half; finite values saturate at ±65504.
__device__ inline std::uint32_t half_pair(float low, float high) {
  const std::uint32_t pair = overflowing_half_pair(low, high);
  if (non_finite_halves(pair) == 0) return pair;
  return to_half(low) | static_cast<std::uint32_t>(to_half(high)) << 16;
}

// F8_E5M2 is the upper byte of an F16.
__device__ inline float e5m2_to_float(std::uint32_t code) {
  return f16_to_float(code << 8);
}

// The bits of F8_E4M3 moved to their F16 positions give the value times 2^-8, the difference of the
// exponent biases.
__device__ inline float e4m3_to_float(std::uint32_t code) {
  if ((code & 0x7f) == 0x7f) return __uint_as_float(0x7fc00000U | (code & 0x80) << 24);
  return f16_to_float((code & 0x80) << 8 | (code & 0x7f) << 7) * 256.0F;
}

}  // namespace graft::kernels::cuda
