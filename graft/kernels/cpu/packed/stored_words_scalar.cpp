#include <cstddef>
#include <cstdint>

#include "graft/kernels/cpu/packed/grid_tables.h"
#include "graft/kernels/cpu/packed/packed.h"
#include "graft/kernels/cpu/packed/unpacked_panel.h"
#include "graft/quant/blocks.h"

namespace graft::kernels::cpu::scalar {

#define GRAFT_VECTOR_BYTES 16
#include "graft/kernels/cpu/packed/stored_words-inl.h"

constinit const StoredUnpackers kStoredUnpackers = kAllStored;

}  // namespace graft::kernels::cpu::scalar
