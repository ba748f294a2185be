#include "graft/kernels/cuda/cache/kv_cache.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/cache/cache_types.cuh"

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
  if (i >= row_elems) return;
  const std::int64_t slot = slots[row];
  const float* from = i < cache.key_size ? keys.data + row * keys.stride + i
                                         : values.data + row * values.stride + i - cache.key_size;
  auto* to = static_cast<typename Cache::Code*>(cache.data) + slot * row_elems + i;
  if constexpr (kVectorized) {
    const float4 values4 = *reinterpret_cast<const float4*>(from);
    if (slot >= 0) Cache::store_4(to, values4);
  } else {
    const float value = *from;
    if (slot >= 0) *to = Cache::store(value);
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

}  // namespace graft::kernels::cuda
