#include "graft/kernels/cpu/math.h"

#include <cstddef>
#include <cstdint>

#include "graft/quant/blocks.h"

namespace graft::kernels::cpu::scalar {

#define GRAFT_VECTOR_BYTES 16
#include "graft/kernels/cpu/math-inl.h"

constinit const MathTable kMath = kAllMath;

}  // namespace graft::kernels::cpu::scalar
