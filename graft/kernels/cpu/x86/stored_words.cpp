#include <vector>

#include "graft/kernels/cpu/isa/isa_level.h"
#include "graft/kernels/cpu/packed/unpacked_panel.h"

namespace graft::kernels::cpu {

const StoredUnpackers& avx512_stored_unpackers() {
  static const bool has_vbmi = cpu_features().avx512vbmi;
  return has_vbmi ? vbmi::kStoredUnpackers : avx2::kStoredUnpackers;
}

std::vector<NamedUnpackers> runnable_stored_unpackers() {
  const CpuFeatures features = cpu_features();
  std::vector<NamedUnpackers> found = {{"scalar", &scalar::kStoredUnpackers}};
  if (missing_feature(IsaLevel::Avx2, features).empty())
    found.push_back({"avx2", &avx2::kStoredUnpackers});
  if (missing_feature(IsaLevel::Avx512, features).empty() && features.avx512vbmi)
    found.push_back({"vbmi", &vbmi::kStoredUnpackers});
  return found;
}

}  // namespace graft::kernels::cpu
