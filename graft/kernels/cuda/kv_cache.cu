#include "graft/kernels/cuda/kv_cache.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/cache_types.cuh"

namespace graft::cuda {
namespace {

constexpr int kThreads = 256;

// A block per row.
template <class Cache>
__global__ void write_cache_kernel(CacheRows cache,
                                   ConstRows keys,
                                   ConstRows values,
                                   const std::int32_t* slots) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t slot = slots[row];
  if (slot < 0) return;
  const std::int64_t row_elems = cache.key_size + cache.value_size;
  auto* to = static_cast<typename Cache::Code*>(cache.data) + slot * row_elems;
  for (std::int64_t i = threadIdx.x; i < row_elems; i += blockDim.x) {
    const float value = i < cache.key_size ? keys.data[row * keys.stride + i]
                                           : values.data[row * values.stride + i - cache.key_size];
    to[i] = Cache::store(value);
  }
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
  launch("write_cache", write_cache_kernel<Cache>, {static_cast<unsigned>(rows), kThreads}, stream,
         cache, keys, values, slots);
}

template <class Cache>
struct Write {
  static constexpr Launch kLaunch = launch_write<Cache>;
};

constexpr auto kWrite = cache_table<Launch, Write>();

}  // namespace

bool is_cache_type(DType dtype) {
  return kWrite[static_cast<std::size_t>(dtype)] != nullptr;
}

void write_cache(const CacheRows& cache,
                 ConstRows keys,
                 ConstRows values,
                 const std::int32_t* slots,
                 std::int64_t rows,
                 Stream stream) {
  GRAFT_CHECK(is_cache_type(cache.dtype), "no cache of ", name(cache.dtype));
  kWrite[static_cast<std::size_t>(cache.dtype)](cache, keys, values, slots, rows, stream);
}

void copy_cache_block(const CacheRows& cache,
                      std::int64_t block_tokens,
                      std::int64_t from,
                      std::int64_t to,
                      Stream stream) {
  const std::size_t bytes = bytes_of(cache.dtype, block_tokens * cache.row_elems());
  auto* data = static_cast<std::byte*>(cache.data);
  check_launch("copy_cache_block",
               cudaMemcpyAsync(data + static_cast<std::size_t>(to) * bytes,
                               data + static_cast<std::size_t>(from) * bytes, bytes,
                               cudaMemcpyDeviceToDevice, stream),
               stream);
}

}  // namespace graft::cuda
