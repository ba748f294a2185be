#include "graft/kernels/cpu/math.h"

#include <cstddef>
#include <cstdint>

#include <arm_neon.h>

#include "graft/quant/blocks.h"

namespace graft::kernels::cpu::neon {

#define GRAFT_VECTOR_BYTES 16
#define GRAFT_NEON 1
#include "graft/kernels/cpu/math-inl.h"

constinit const MathTable kMath = kAllMath;

}  // namespace graft::kernels::cpu::neon
