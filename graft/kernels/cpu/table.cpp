#include "graft/kernels/cpu/table.h"

#include <array>
#include <cstdlib>

#include "graft/kernels/cpu/codecs.h"
#include "graft/kernels/cpu/isa/isa_level.h"

namespace graft::kernels::cpu {
namespace {

// Indexed by IsaLevel.
const std::array<KernelTable, 4>& tables() {
  static const std::array<KernelTable, 4> tables = {
      KernelTable{.isa = "scalar",
                  .codecs = quant::reference_codecs(),
                  .math = scalar::kMath,
                  .packed = scalar::kPacked,
                  .peak = scalar::kPeak},
      KernelTable{.isa = "avx2",
                  .codecs = avx2::kCodecs,
                  .math = avx2::kMath,
                  .packed = avx2::kPacked,
                  .peak = avx2::kPeak},
      KernelTable{.isa = "avx512",
                  .codecs = avx512::kCodecs,
                  .math = avx512::kMath,
                  .packed = cpu_features().is_amd ? avx512::kPackedInPlace : avx512::kPacked,
                  .peak = avx512::kPeak},
      // AMX only speeds up the packed kernels; everything else is AVX-512.
      KernelTable{.isa = "amx",
                  .codecs = avx512::kCodecs,
                  .math = avx512::kMath,
                  .packed = amx::kPacked,
                  .peak = amx::kPeak},
  };
  return tables;
}

struct Runnable {
  std::array<const KernelTable*, 4> tables{};
  std::size_t count = 0;
};

Runnable find_runnable() {
  const CpuFeatures features = cpu_features();
  Runnable found;
  for (std::size_t level = 0; level < tables().size(); ++level) {
    if (missing_feature(static_cast<IsaLevel>(level), features).empty()) {
      found.tables[found.count++] = &tables()[level];
    }
  }
  return found;
}

}  // namespace

const KernelTable& kernels() {
  static const KernelTable& selected = [&]() -> const KernelTable& {
    const char* name = std::getenv("GRAFT_CPU_ISA");
    const IsaLevel level = choose_level(name == nullptr ? "" : name, cpu_features());
    return tables()[static_cast<std::size_t>(level)];
  }();
  return selected;
}

std::span<const KernelTable* const> runnable_kernels() {
  static const Runnable runnable = find_runnable();
  return {runnable.tables.data(), runnable.count};
}

}  // namespace graft::kernels::cpu
