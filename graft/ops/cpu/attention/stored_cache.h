// The KV cache as attention kernels of the CPU read it: rows as stored.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cpu/math.h"
#include "graft/ops/pass.h"
#include "graft/tensor/dtype.h"

namespace graft::ops::cpu {

class StoredCache {
 public:
  StoredCache() = default;
  StoredCache(const StoredCache&) = delete;
  StoredCache& operator=(const StoredCache&) = delete;
  virtual ~StoredCache() = default;

  // Null functions: none for its type at this instruction set.
  virtual kernels::cpu::StoredAttention kernels() const = 0;
  // The addresses of the rows of positions [begin, end).
  virtual void row_pointers(const SequenceSlice& sequence,
                            std::int64_t begin,
                            std::int64_t end,
                            const std::byte** out) const = 0;
  virtual DType dtype() const = 0;
  virtual std::int64_t key_size() const = 0;  // values follow the keys of a row
};

}  // namespace graft::ops::cpu
