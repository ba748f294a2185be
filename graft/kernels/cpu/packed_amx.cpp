#include "graft/kernels/cpu/packed.h"

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "graft/kernels/cpu/isa.h"
#include "graft/quant/blocks.h"

GRAFT_ISA_BEGIN(amx)

#define GRAFT_VECTOR_BYTES 64
#define GRAFT_TILES
#include "graft/kernels/cpu/packed-inl.h"

constinit const PackedTable kPacked = kAllPacked;

GRAFT_ISA_END
