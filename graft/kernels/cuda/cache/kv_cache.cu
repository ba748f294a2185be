#include "graft/kernels/cuda/cache/kv_cache.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/cache/cache_types.cuh"
#include "graft/quant/codec.h"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 128;

// Grid: (rows, column blocks), one thread per value, or per four values when vectorized.
template <class Cache, bool kVectorized>
__global__ void write_cache_kernel(CacheRows cache,
                                   ConstRows keys,
                                   ConstRows values,
                                   const std::int32_t* slots) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const std::int64_t row_elems = cache.key_size + cache.value_size;
  const std::int64_t i =
      (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * (kVectorized ? 4 : 1);
  const std::int64_t slot = slots[row];
  const bool exists = i < row_elems;  // all lanes store together
  const float* from = i < cache.key_size ? keys.data + row * keys.stride + i
                                         : values.data + row * values.stride + i - cache.key_size;
  const CacheRowAt to = cache_row_at<Cache>(cache.data, slot, row_elems);
  if constexpr (kVectorized) {
    const float4 four = exists ? *reinterpret_cast<const float4*>(from) : make_float4(0, 0, 0, 0);
    Cache::store_4(to, i, four, exists && slot >= 0);
  } else {
    Cache::store_1(to, i, exists ? *from : 0.0F, exists && slot >= 0);
  }
}

bool is_float4_aligned(ConstRows x, std::int64_t size) {
  return size % 4 == 0 && x.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

using Launch = void (*)(const CacheRows& cache,
                        ConstRows keys,
                        ConstRows values,
                        const std::int32_t* slots,
                        std::int64_t rows,
                        Stream stream);

template <class Cache>
void launch_write(const CacheRows& cache,
                  ConstRows keys,
                  ConstRows values,
                  const std::int32_t* slots,
                  std::int64_t rows,
                  Stream stream) {
  const bool vectorized = is_float4_aligned(keys, cache.key_size) &&
                          (cache.value_size == 0 || is_float4_aligned(values, cache.value_size));
  const std::int64_t items = cache.row_elems() / (vectorized ? 4 : 1);
  const dim3 grid(static_cast<unsigned>(rows), blocks_for(items, kThreads));
  launch("write_cache",
         vectorized ? write_cache_kernel<Cache, true> : write_cache_kernel<Cache, false>,
         {grid, kThreads}, stream, cache, keys, values, slots);
}

template <class Cache>
struct WriteLauncher {
  static constexpr Launch kLaunch = launch_write<Cache>;
};

constexpr auto kLaunches = cache_table<Launch, WriteLauncher>();

}  // namespace

bool is_cache_type(DType dtype) {
  return kLaunches[static_cast<std::size_t>(dtype)] != nullptr;
}

void write_cache(const CacheRows& cache,
                 ConstRows keys,
                 ConstRows values,
                 const std::int32_t* slots,
                 std::int64_t rows,
                 Stream stream) {
  GRAFT_CHECK(is_cache_type(cache.dtype), "unsupported KV cache dtype ", name(cache.dtype));
  kLaunches[static_cast<std::size_t>(cache.dtype)](cache, keys, values, slots, rows, stream);
}

void decode_cache_row(DType dtype,
                      std::int64_t cols,
                      const std::byte* row,
                      std::int64_t first,
                      std::span<float> out) {
  GRAFT_CHECK(is_cache_type(dtype), "unsupported KV cache dtype ", name(dtype));
  if (dtype != DType::Q8_0 && dtype != DType::Q4_0) {
    const quant::Codec& codec = quant::reference_codecs()[static_cast<std::size_t>(dtype)];
    return codec.decode(row + bytes_of(dtype, first), out.data(), out.size());
  }
  const bool is_q8 = dtype == DType::Q8_0;
  const auto* codes = reinterpret_cast<const std::uint8_t*>(row);
  const auto* scales = reinterpret_cast<const std::uint16_t*>(codes + (is_q8 ? cols : cols / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t col = first + static_cast<std::int64_t>(i);
    const int shift = CacheQ4_0::shift(static_cast<int>(col % 8));
    const int code = is_q8 ? static_cast<std::int8_t>(codes[col])
                           : (codes[col / 8 * 4 + shift / 8] >> shift % 8 & 15) - 8;
    out[i] = static_cast<float>(code) * __half2float(__ushort_as_half(scales[col / kScaleCols]));
  }
}

}  // namespace graft::kernels::cuda
