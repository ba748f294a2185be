// The paged cache of keys and values: rows of floats of 32 or 16 bits, key_size values and then
// value_size (0 for latent attention, whose values are the leading part of the keys). Row r of
// block b is slot b * block_tokens + r.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

struct CacheRows {
  DType dtype = DType::F16;  // F32, F16 or BF16
  void* data = nullptr;      // a multiple of 16
  std::int64_t key_size = 0;
  std::int64_t value_size = 0;

  std::int64_t row_elems() const { return key_size + value_size; }
};

bool is_cache_type(DType dtype);

// Stores the rows of a pass at their slots. A negative slot is that of a row that is not kept.
void write_cache(const CacheRows& cache,
                 ConstRows keys,
                 ConstRows values,
                 const std::int32_t* slots,
                 std::int64_t rows,
                 Stream stream);

}  // namespace graft::kernels::cuda
