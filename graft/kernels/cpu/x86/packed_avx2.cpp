#include "graft/kernels/cpu/packed/packed.h"

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/kernels/cpu/packed/unpacked_panel.h"
#include "graft/quant/blocks.h"

GRAFT_ISA_BEGIN(avx2)

#define GRAFT_VECTOR_BYTES 32
#include "graft/kernels/cpu/packed/packed-inl.h"

constinit const PackedTable kPacked = kAllPacked;

GRAFT_ISA_END
