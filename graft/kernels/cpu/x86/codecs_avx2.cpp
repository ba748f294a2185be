#include "graft/kernels/cpu/codecs.h"

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/quant/blocks.h"
#include "graft/quant/iq_grids.h"

GRAFT_ISA_BEGIN(avx2)

#define GRAFT_VECTOR_BYTES 32
#include "graft/quant/codecs-inl.h"

constinit const quant::CodecTable kCodecs = kAllCodecs;

GRAFT_ISA_END
