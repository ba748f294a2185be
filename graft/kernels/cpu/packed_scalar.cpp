#include "graft/kernels/cpu/packed.h"

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "graft/quant/blocks.h"

namespace graft::cpu::scalar {

#define GRAFT_VECTOR_BYTES 16
#include "graft/kernels/cpu/packed-inl.h"

constinit const PackedTable kPacked = kAllPacked;

}  // namespace graft::cpu::scalar
