// The paged KV cache: rows [key_size + value_size], keys first; value_size is 0 for latent
// attention, whose values are the leading columns of the keys. Token r of block b is in row (slot)
// b * block_tokens + r. cache_types.cuh describes the rows of each type.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/kernels/cuda/stream.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

struct CacheRows {
  DType dtype = DType::F16;   // is_cache_type()
  void* data = nullptr;       // 16-byte aligned
  std::int64_t key_size = 0;  // values per row, all KV heads
  std::int64_t value_size = 0;

  std::int64_t row_elems() const { return key_size + value_size; }
};

bool is_cache_type(DType dtype);

// Stores keys[rows, key_size] and values[rows, value_size] f32 at slots[rows]; rows with a negative
// slot are skipped.
void write_cache(const CacheRows& cache,
                 ConstRows keys,
                 ConstRows values,
                 const std::int32_t* slots,
                 std::int64_t rows,
                 Stream stream);

// Columns [first, first + out.size()) of a row of `cols` columns in host memory.
void decode_cache_row(
    DType dtype, std::int64_t cols, const std::byte* row, std::int64_t first, std::span<float> out);

}  // namespace graft::kernels::cuda
