// Conversions of the KV cache dtypes, and kernel tables indexed by dtype.
//
// A cache row is the codes of all columns. Types with scales follow: the codes, then an F16 scale
// per 32 columns. So a row has as many bytes as the blocks of the type, but its codes can be copied
// 16 bytes at a time.
//
//    Q8_0   a signed byte per column
//    Q4_0   4 bytes per 8 columns: columns 0 2 4 6 in the lower 16 bits, 1 3 5 7 in the upper ones,
//           the lowest column first; a value is (nibble - 8) * scale

#pragma once

#include <array>

#include <cuda_fp8.h>

#include "graft/kernels/cuda/formats/bits.cuh"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

inline constexpr int kScaleCols = 32;  // of a cache row

// Where a row's codes and scales are. Types without scales have no second address.
struct CacheRowAt {
  std::uint8_t* codes;
  std::uint8_t* scales;
};

// load, load_4: columns as f32; col of load_4 is a multiple of 4. Quantized types have load_codes
// and load_scale of columns col .. col + 7, and halves(), which makes F16 of them; col is a
// multiple of 8 and rows are a multiple of 4 bytes, of 8 without scales. store_1, store_4: all
// lanes of a warp call them. store_1 has 32 consecutive columns, from a multiple of 32 for types
// with scales; store_4 four per lane, where groups of 8 lanes have 32 consecutive columns. Lanes
// that are not active store nothing, nor do others of their group.

template <class Code_>
struct PlainCache {
  using Code = Code_;
  static constexpr int kBits = 8 * sizeof(Code);
  static constexpr bool kHasScales = false;
  static const __device__ Code* codes(const CacheRowAt& row) {
    return reinterpret_cast<const Code*>(row.codes);
  }
  static __device__ Code* codes(CacheRowAt& row) { return reinterpret_cast<Code*>(row.codes); }
};

struct CacheF32 : PlainCache<float> {
  static constexpr DType kType = DType::F32;
  static __device__ float load(const CacheRowAt& row, std::int64_t col) { return codes(row)[col]; }
  static __device__ float4 load_4(const CacheRowAt& row, std::int64_t col) {
    return *reinterpret_cast<const float4*>(codes(row) + col);
  }
  static __device__ void store_1(CacheRowAt row, std::int64_t col, float value, bool active) {
    if (active) codes(row)[col] = value;
  }
  static __device__ void store_4(CacheRowAt row, std::int64_t col, float4 v, bool active) {
    if (active) *reinterpret_cast<float4*>(codes(row) + col) = v;
  }
};

struct CacheF16 : PlainCache<std::uint16_t> {
  static constexpr DType kType = DType::F16;
  static __device__ float load(const CacheRowAt& row, std::int64_t col) {
    return f16_to_float(codes(row)[col]);
  }
  static __device__ Code store(float value) { return __half_as_ushort(__float2half_rn(value)); }
  static __device__ float4 load_4(const CacheRowAt& row, std::int64_t col) {
    const uint2 v = *reinterpret_cast<const uint2*>(codes(row) + col);
    return make_float4(f16_to_float(v.x & 0xffff), f16_to_float(v.x >> 16),
                       f16_to_float(v.y & 0xffff), f16_to_float(v.y >> 16));
  }
  static __device__ void store_1(CacheRowAt row, std::int64_t col, float value, bool active) {
    if (active) codes(row)[col] = store(value);
  }
  static __device__ void store_4(CacheRowAt row, std::int64_t col, float4 v, bool active) {
    if (!active) return;
    *reinterpret_cast<ushort4*>(codes(row) + col) =
        make_ushort4(store(v.x), store(v.y), store(v.z), store(v.w));
  }
};

struct CacheBF16 : PlainCache<std::uint16_t> {
  static constexpr DType kType = DType::BF16;
  static __device__ float load(const CacheRowAt& row, std::int64_t col) {
    return bf16_to_float(codes(row)[col]);
  }
  static __device__ float4 load_4(const CacheRowAt& row, std::int64_t col) {
    const uint2 v = *reinterpret_cast<const uint2*>(codes(row) + col);
    return make_float4(bf16_to_float(v.x & 0xffff), __uint_as_float(v.x & 0xffff0000U),
                       bf16_to_float(v.y & 0xffff), __uint_as_float(v.y & 0xffff0000U));
  }
  static __device__ void store_1(CacheRowAt row, std::int64_t col, float value, bool active) {
    if (active) codes(row)[col] = to_bf16(value);
  }
  static __device__ void store_4(CacheRowAt row, std::int64_t col, float4 v, bool active) {
    if (!active) return;
    *reinterpret_cast<ushort4*>(codes(row) + col) =
        make_ushort4(to_bf16(v.x), to_bf16(v.y), to_bf16(v.z), to_bf16(v.w));
  }
};

// E4M3 without scales; values beyond 448 are clamped.
struct CacheF8 : PlainCache<std::uint8_t> {
  static constexpr DType kType = DType::F8_E4M3;
  static __device__ float load(const CacheRowAt& row, std::int64_t col) {
    return e4m3_to_float(codes(row)[col]);
  }
  static __device__ float4 load_4(const CacheRowAt& row, std::int64_t col) {
    const std::uint32_t v = *reinterpret_cast<const std::uint32_t*>(codes(row) + col);
    return make_float4(e4m3_to_float(v & 255), e4m3_to_float(v >> 8 & 255),
                       e4m3_to_float(v >> 16 & 255), e4m3_to_float(v >> 24));
  }
  static __device__ Code store(float value) {
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  }
  static __device__ void store_1(CacheRowAt row, std::int64_t col, float value, bool active) {
    if (active) codes(row)[col] = store(value);
  }
  static __device__ void store_4(CacheRowAt row, std::int64_t col, float4 v, bool active) {
    if (!active) return;
    *reinterpret_cast<uchar4*>(codes(row) + col) =
        make_uchar4(store(v.x), store(v.y), store(v.z), store(v.w));
  }
  // Codes of two columns, the lower one in the lower byte, as halves.
  static __device__ std::uint32_t halves_of(std::uint32_t pair) {
    const __half2_raw halves =
        __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), __NV_E4M3);
    return halves.x | static_cast<std::uint32_t>(halves.y) << 16;
  }
  static __device__ uint4 halves(uint2 codes, __half /*scale*/) {
    return make_uint4(halves_of(codes.x & 0xffff), halves_of(codes.x >> 16),
                      halves_of(codes.y & 0xffff), halves_of(codes.y >> 16));
  }
  using Codes = uint2;
  static __device__ Codes load_codes(const CacheRowAt& row, std::int64_t col) {
    return *reinterpret_cast<const uint2*>(codes(row) + col);
  }
  static __device__ __half load_scale(const CacheRowAt& /*row*/, std::int64_t /*col*/) {
    return {};
  }
};

// What types with scales share: the largest value of 32 columns, spread over lanes.
__device__ inline float larger_magnitude(float a, float b) {
  return fabsf(b) > fabsf(a) ? b : a;
}

template <int kLanes>
__device__ float largest_of_lanes(float value) {
  GRAFT_UNROLL
  for (int step = 1; step < kLanes; step *= 2)
    value = larger_magnitude(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

__device__ inline float largest_of(float4 v) {
  return larger_magnitude(larger_magnitude(v.x, v.y), larger_magnitude(v.z, v.w));
}

__device__ inline void store_scale(const CacheRowAt& row, std::int64_t col, float scale) {
  const float finite = fminf(fmaxf(scale, -65504.0F), 65504.0F);
  reinterpret_cast<std::uint16_t*>(row.scales)[col / kScaleCols] =
      __half_as_ushort(__float2half_rn(finite));
}

__device__ inline __half scale_at(const CacheRowAt& row, std::int64_t col) {
  return __ushort_as_half(reinterpret_cast<const std::uint16_t*>(row.scales)[col / kScaleCols]);
}

__device__ inline std::uint32_t times(std::uint32_t halves, __half2 scale) {
  const __half2 product = __hmul2(reinterpret_cast<const __half2&>(halves), scale);
  return reinterpret_cast<const std::uint32_t&>(product);
}

__device__ inline std::uint32_t minus(std::uint32_t halves, float value) {
  const __half2 rest = __hsub2(reinterpret_cast<const __half2&>(halves), __float2half2_rn(value));
  return reinterpret_cast<const std::uint32_t&>(rest);
}

struct CacheQ8_0 {
  static constexpr DType kType = DType::Q8_0;
  static constexpr int kBits = 8;
  static constexpr bool kHasScales = true;

  static __device__ float load(const CacheRowAt& row, std::int64_t col) {
    return static_cast<float>(static_cast<std::int8_t>(row.codes[col])) *
           __half2float(scale_at(row, col));
  }
  static __device__ float4 load_4(const CacheRowAt& row, std::int64_t col) {
    return make_float4(load(row, col), load(row, col + 1), load(row, col + 2), load(row, col + 3));
  }
  static __device__ std::uint32_t code(float value, float inverse) {
    return static_cast<std::uint32_t>(__float2int_rn(value * inverse)) & 255;
  }
  static __device__ void store_1(CacheRowAt row, std::int64_t col, float value, bool active) {
    const float scale = fabsf(largest_of_lanes<kWarpSize>(value)) / 127.0F;
    if (!active) return;
    row.codes[col] = static_cast<std::uint8_t>(code(value, scale == 0.0F ? 0.0F : 1.0F / scale));
    if (col % kScaleCols == 0) store_scale(row, col, scale);
  }
  static __device__ void store_4(CacheRowAt row, std::int64_t col, float4 v, bool active) {
    const float scale = fabsf(largest_of_lanes<kScaleCols / 4>(largest_of(v))) / 127.0F;
    if (!active) return;
    const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
    auto* to = reinterpret_cast<std::uint16_t*>(row.codes + col);
    to[0] = static_cast<std::uint16_t>(code(v.x, inverse) | code(v.y, inverse) << 8);
    to[1] = static_cast<std::uint16_t>(code(v.z, inverse) | code(v.w, inverse) << 8);
    if (col % kScaleCols == 0) store_scale(row, col, scale);
  }
  // The bytes b + 128 are the lowest bits of the halves 1024 + 128 + b.
  static __device__ uint4 halves(uint2 codes, __half scale) {
    constexpr std::uint32_t kUpper = 0x64646464U;
    const __half2 scales = __half2half2(scale);
    const std::uint32_t low = codes.x ^ 0x80808080U;
    const std::uint32_t high = codes.y ^ 0x80808080U;
    return make_uint4(times(minus(__byte_perm(low, kUpper, 0x4140), 1152.0F), scales),
                      times(minus(__byte_perm(low, kUpper, 0x4342), 1152.0F), scales),
                      times(minus(__byte_perm(high, kUpper, 0x4140), 1152.0F), scales),
                      times(minus(__byte_perm(high, kUpper, 0x4342), 1152.0F), scales));
  }
  using Codes = uint2;
  static __device__ Codes load_codes(const CacheRowAt& row, std::int64_t col) {
    return load_8_bytes<4>(row.codes + col);
  }
  static __device__ __half load_scale(const CacheRowAt& row, std::int64_t col) {
    return scale_at(row, col);
  }
};

struct CacheQ4_0 {
  static constexpr DType kType = DType::Q4_0;
  static constexpr int kBits = 4;
  static constexpr bool kHasScales = true;

  // Of column `col` % 8 in its word.
  static __host__ __device__ int shift(int col) { return col % 2 * 16 + col / 2 * 4; }

  static __device__ float load(const CacheRowAt& row, std::int64_t col) {
    const int at = shift(static_cast<int>(col % 8));
    const int nibble = row.codes[col / 8 * 4 + at / 8] >> at % 8 & 15;
    return static_cast<float>(nibble - 8) * __half2float(scale_at(row, col));
  }
  static __device__ float4 load_4(const CacheRowAt& row, std::int64_t col) {
    return make_float4(load(row, col), load(row, col + 1), load(row, col + 2), load(row, col + 3));
  }
  // The largest value becomes -8.
  static __device__ float scale_of(float largest) { return largest / -8.0F; }
  static __device__ std::uint32_t code(float value, float inverse) {
    const int nibble = __float2int_rn(value * inverse) + 8;
    return static_cast<std::uint32_t>(min(max(nibble, 0), 15));
  }
  static __device__ void store_word(const CacheRowAt& row, std::int64_t col, std::uint32_t word) {
    auto* to = reinterpret_cast<std::uint16_t*>(row.codes + col / 2);
    to[0] = static_cast<std::uint16_t>(word);
    to[1] = static_cast<std::uint16_t>(word >> 16);
  }
  static __device__ void store_1(CacheRowAt row, std::int64_t col, float value, bool active) {
    const float scale = scale_of(largest_of_lanes<kWarpSize>(value));
    const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
    std::uint32_t word = code(value, inverse) << shift(static_cast<int>(col % 8));
    GRAFT_UNROLL
    for (int step = 1; step < 8; step *= 2)
      word |= __shfl_xor_sync(kAllLanes, word, step);
    if (active && col % 8 == 0) store_word(row, col, word);
    if (active && col % kScaleCols == 0) store_scale(row, col, scale);
  }
  static __device__ void store_4(CacheRowAt row, std::int64_t col, float4 v, bool active) {
    const float scale = scale_of(largest_of_lanes<kScaleCols / 4>(largest_of(v)));
    const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
    const std::uint32_t four = code(v.x, inverse) | code(v.y, inverse) << 16 |
                               code(v.z, inverse) << 4 | code(v.w, inverse) << 20;
    std::uint32_t word = four << (col % 8 == 0 ? 0 : 8);
    word |= __shfl_xor_sync(kAllLanes, word, 1);
    if (active && col % 8 == 0) store_word(row, col, word);
    if (active && col % kScaleCols == 0) store_scale(row, col, scale);
  }
  // A nibble is in the lowest bits of the half 1024 + nibble.
  static __device__ uint4 halves(std::uint32_t word, __half scale) {
    const __half2 scales = __half2half2(scale);
    const auto two = [&](int i) {
      return times(minus((word >> (4 * i) & 0x000f000fU) | 0x64006400U, 1032.0F), scales);
    };
    return make_uint4(two(0), two(1), two(2), two(3));
  }
  using Codes = std::uint32_t;
  static __device__ Codes load_codes(const CacheRowAt& row, std::int64_t col) {
    return *reinterpret_cast<const std::uint32_t*>(row.codes + col / 2);
  }
  static __device__ __half load_scale(const CacheRowAt& row, std::int64_t col) {
    return scale_at(row, col);
  }
};

// Types whose rows are converted to F16 on their way to the tensor cores.
template <class Cache>
inline constexpr bool kIsQuantizedCache = Cache::kBits < 16;

template <class Cache>
__host__ __device__ constexpr std::int64_t cache_code_bytes(std::int64_t cols) {
  return cols * Cache::kBits / 8;
}

template <class Cache>
__host__ __device__ constexpr std::int64_t cache_row_bytes(std::int64_t cols) {
  return cache_code_bytes<Cache>(cols) + (Cache::kHasScales ? cols / kScaleCols * 2 : 0);
}

// Row `slot` of rows of `cols` columns.
template <class Cache>
__device__ CacheRowAt cache_row_at(const void* data, std::int64_t slot, std::int64_t cols) {
  auto* row = const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(data)) +
              slot * cache_row_bytes<Cache>(cols);
  return {.codes = row, .scales = row + cache_code_bytes<Cache>(cols)};
}

// Columns col .. col + 7 of a quantized row as F16.
template <class Cache>
__device__ uint4 load_halves(const CacheRowAt& row, std::int64_t col) {
  return Cache::halves(Cache::load_codes(row, col), Cache::load_scale(row, col));
}

// Launcher<Cache>::kLaunch by dtype; null for dtypes that are not cache dtypes.
template <class Function, template <class> class Launcher>
constexpr std::array<Function, kNumDTypes> cache_table() {
  std::array<Function, kNumDTypes> table{};
  table[static_cast<std::size_t>(DType::F32)] = Launcher<CacheF32>::kLaunch;
  table[static_cast<std::size_t>(DType::F16)] = Launcher<CacheF16>::kLaunch;
  table[static_cast<std::size_t>(DType::BF16)] = Launcher<CacheBF16>::kLaunch;
  table[static_cast<std::size_t>(DType::F8_E4M3)] = Launcher<CacheF8>::kLaunch;
  table[static_cast<std::size_t>(DType::Q8_0)] = Launcher<CacheQ8_0>::kLaunch;
  table[static_cast<std::size_t>(DType::Q4_0)] = Launcher<CacheQ4_0>::kLaunch;
  return table;
}

inline bool is_quantized_cache(DType dtype) {
  return dtype == DType::F8_E4M3 || dtype == DType::Q8_0 || dtype == DType::Q4_0;
}

}  // namespace graft::kernels::cuda
