#include "graft/kernels/cpu/packed/packed.h"

#include <cstddef>
#include <cstdint>

#include <arm_neon.h>

#include "graft/kernels/cpu/packed/unpacked_panel.h"
#include "graft/quant/blocks.h"

namespace graft::kernels::cpu::neon {

#define GRAFT_VECTOR_BYTES 16
#define GRAFT_NEON 1
#include "graft/kernels/cpu/packed/packed-inl.h"

constinit const PackedTable kPacked = kAllPacked;

}  // namespace graft::kernels::cpu::neon
