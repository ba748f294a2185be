#include "graft/kernels/cpu/math.h"

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/quant/blocks.h"

GRAFT_ISA_BEGIN(avx512)

#define GRAFT_VECTOR_BYTES 64
#include "graft/kernels/cpu/math-inl.h"

constinit const MathTable kMath = kAllMath;

GRAFT_ISA_END
