// Conversions of the KV cache dtypes, and kernel tables indexed by dtype.

#pragma once

#include <array>

#include "graft/kernels/cuda/formats/bits.cuh"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

// load_4, store_4: four values at an address aligned to four values.
struct CacheF32 {
  static constexpr DType kType = DType::F32;
  using Code = float;
  static __device__ float load(Code code) { return code; }
  static __device__ Code store(float value) { return value; }
  static __device__ float4 load_4(const Code* from) {
    return *reinterpret_cast<const float4*>(from);
  }
  static __device__ void store_4(Code* to, float4 values) {
    *reinterpret_cast<float4*>(to) = values;
  }
};

struct CacheF16 {
  static constexpr DType kType = DType::F16;
  using Code = std::uint16_t;
  static __device__ float load(Code code) { return f16_to_float(code); }
  static __device__ Code store(float value) { return __half_as_ushort(__float2half_rn(value)); }
  static __device__ float4 load_4(const Code* from) {
    const uint2 v = *reinterpret_cast<const uint2*>(from);
    return make_float4(f16_to_float(v.x & 0xffff), f16_to_float(v.x >> 16),
                       f16_to_float(v.y & 0xffff), f16_to_float(v.y >> 16));
  }
  static __device__ void store_4(Code* to, float4 v) {
    *reinterpret_cast<ushort4*>(to) = make_ushort4(store(v.x), store(v.y), store(v.z), store(v.w));
  }
};

struct CacheBF16 {
  static constexpr DType kType = DType::BF16;
  using Code = std::uint16_t;
  static __device__ float load(Code code) { return bf16_to_float(code); }
  static __device__ Code store(float value) { return to_bf16(value); }
  static __device__ float4 load_4(const Code* from) {
    const uint2 v = *reinterpret_cast<const uint2*>(from);
    return make_float4(bf16_to_float(v.x & 0xffff), __uint_as_float(v.x & 0xffff0000U),
                       bf16_to_float(v.y & 0xffff), __uint_as_float(v.y & 0xffff0000U));
  }
  static __device__ void store_4(Code* to, float4 v) {
    *reinterpret_cast<ushort4*>(to) = make_ushort4(store(v.x), store(v.y), store(v.z), store(v.w));
  }
};

// Launcher<Cache>::kLaunch by dtype; null for dtypes that are not cache dtypes.
template <class Function, template <class> class Launcher>
constexpr std::array<Function, kNumDTypes> cache_table() {
  std::array<Function, kNumDTypes> table{};
  table[static_cast<std::size_t>(DType::F32)] = Launcher<CacheF32>::kLaunch;
  table[static_cast<std::size_t>(DType::F16)] = Launcher<CacheF16>::kLaunch;
  table[static_cast<std::size_t>(DType::BF16)] = Launcher<CacheBF16>::kLaunch;
  return table;
}

}  // namespace graft::kernels::cuda
