#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/kernels/cpu/packed/grid_tables.h"
#include "graft/kernels/cpu/packed/packed.h"
#include "graft/kernels/cpu/packed/unpacked_panel.h"
#include "graft/quant/blocks.h"

GRAFT_ISA_BEGIN(vbmi)

#define GRAFT_VECTOR_BYTES 64
#include "graft/kernels/cpu/packed/stored_words-inl.h"

constinit const StoredUnpackers kStoredUnpackers = kAllStored;

GRAFT_ISA_END
