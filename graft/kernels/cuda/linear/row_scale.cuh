// The power-of-two scale of a row in F16 (F16Rows in linear.h).

#pragma once

#include <cstdint>

#include <cuda_runtime.h>

namespace graft::kernels::cuda {

// Biased f32 exponents; 127 is that of 1.
inline constexpr std::uint32_t kExponentBias = 127;
inline constexpr std::uint32_t kMinUnscaled = kExponentBias - 4;  // rows from 2^-4 …
inline constexpr std::uint32_t kMaxUnscaled =
    kExponentBias + 14;                               // … to below 2^14 keep the scale 1
inline constexpr std::uint32_t kTargetExponent = 10;  // log2 of a scaled row's largest magnitude
inline constexpr std::uint32_t kInfinityExponent = 255;

__device__ inline float power_of_two(std::uint32_t exponent) {
  return __uint_as_float(exponent << 23);
}

// Biased exponent of the scale for a row with this largest magnitude.
__device__ inline std::uint32_t scale_exponent(float max_abs) {
  const std::uint32_t exponent = __float_as_uint(max_abs) >> 23;
  const bool is_unscaled = exponent >= kMinUnscaled && exponent < kMaxUnscaled;
  if (is_unscaled || max_abs == 0.0F || exponent == kInfinityExponent) return kExponentBias;
  return exponent > kTargetExponent ? exponent - kTargetExponent : 1;
}

}  // namespace graft::kernels::cuda
