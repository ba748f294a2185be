#include "graft/kernels/cpu/isa/isa_level.h"
#include "graft/kernels/cpu/packed/unpacked_panel.h"

namespace graft::kernels::cpu {

const StoredUnpackers& avx512_stored_unpackers() {
  static const bool has_vbmi = cpu_features().avx512vbmi;
  return has_vbmi ? vbmi::kStoredUnpackers : avx2::kStoredUnpackers;
}

}  // namespace graft::kernels::cpu
