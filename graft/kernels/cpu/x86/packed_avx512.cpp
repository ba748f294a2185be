#include "graft/kernels/cpu/packed/packed.h"

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/kernels/cpu/packed/unpacked_panel.h"
#include "graft/quant/blocks.h"

GRAFT_ISA_BEGIN(avx512)

#define GRAFT_VECTOR_BYTES 64
#include "graft/kernels/cpu/packed/packed-inl.h"

constinit const PackedTable kPacked = kAllPacked;
// Tiles of 12 rows: twelve int32 and twelve float sums leave eight registers for codes, scales and
// x.
constinit const PackedTable kPackedInPlace = make_packed<12, 12, kMaxGemmRows>();

GRAFT_ISA_END
