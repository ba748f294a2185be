#include <cstddef>
#include <cstdint>

#include <arm_neon.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/kernels/cpu/packed/packed.h"
#include "graft/kernels/cpu/packed/unpacked_panel.h"
#include "graft/quant/blocks.h"

GRAFT_ISA_BEGIN(dotprod)

using neon::kStoredUnpackers;

#define GRAFT_VECTOR_BYTES 16
#define GRAFT_NEON 1
#define GRAFT_DOTPROD
#include "graft/kernels/cpu/packed/packed-inl.h"

constinit const PackedTable kPacked = kAllPacked;

GRAFT_ISA_END
