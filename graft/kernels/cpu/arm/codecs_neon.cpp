#include "graft/kernels/cpu/codecs.h"

#include <cstddef>
#include <cstdint>

#include <arm_neon.h>

#include "graft/quant/blocks.h"
#include "graft/quant/iq_grids.h"

namespace graft::kernels::cpu::neon {

#define GRAFT_VECTOR_BYTES 16
#define GRAFT_NEON 1
#include "graft/quant/codecs-inl.h"

constinit const quant::CodecTable kCodecs = kAllCodecs;

}  // namespace graft::kernels::cpu::neon
