// Logits as integers that sort like them.

#pragma once

#include <cstdint>

#include <cuda_runtime.h>

namespace graft::kernels::cuda {

// Maps a float to an unsigned integer of the same order: -0 below 0, NaN of either sign above all.
__device__ inline std::uint32_t order_key(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0xffffffffU;
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// A logit and its token in 64 bits that sort descending by logit, ties ascending by token: bits
// 63…32 order_key(logit), bits 31…0 ~token. +0 and -0 tie.
__device__ inline unsigned long long packed_entry(float value, std::int64_t token) {
  const std::uint32_t key = order_key(value == 0.0F ? 0.0F : value);
  return static_cast<unsigned long long>(key) << 32 |
         (0xffffffffU - static_cast<std::uint32_t>(token));
}

__device__ inline std::int32_t entry_token(unsigned long long entry) {
  return static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(entry));
}

// NaN for the key of NaN.
__device__ inline float entry_value(unsigned long long entry) {
  const auto key = static_cast<std::uint32_t>(entry >> 32);
  return __uint_as_float((key & 0x80000000U) != 0 ? key & 0x7fffffffU : ~key);
}

}  // namespace graft::kernels::cuda
