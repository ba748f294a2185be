// The levels of ARM64: their features and kernels.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "graft/base/check.h"
#include "graft/kernels/cpu/codecs.h"
#include "graft/kernels/cpu/isa/isa_level.h"
#include "graft/kernels/cpu/packed/packed.h"
#include "graft/kernels/cpu/packed/unpacked_panel.h"
#include "graft/kernels/cpu/table.h"

namespace graft::kernels::cpu {
namespace {

// From the lowest to the highest.
constexpr std::array kLevels = {
    LevelName{"scalar", IsaLevel::Scalar},   LevelName{"neon", IsaLevel::Neon},
    LevelName{"dotprod", IsaLevel::Dotprod}, LevelName{"i8mm", IsaLevel::I8mm},
    LevelName{"bf16", IsaLevel::Bf16},
};

constexpr std::array kRequirements = {
    Requirement{IsaLevel::Neon, {&CpuFeatures::neon, "neon"}},
    Requirement{IsaLevel::Dotprod, {&CpuFeatures::dotprod, "dotprod"}},
    Requirement{IsaLevel::I8mm, {&CpuFeatures::i8mm, "i8mm"}},
    Requirement{IsaLevel::Bf16, {&CpuFeatures::bf16, "bf16"}},
};

constexpr std::array kReported = {
    Feature{&CpuFeatures::neon, "neon"},
    Feature{&CpuFeatures::dotprod, "dotprod"},
    Feature{&CpuFeatures::i8mm, "i8mm"},
    Feature{&CpuFeatures::bf16, "bf16"},
};

PackedTable i8mm_and_floats() {
  PackedTable table = i8mm::kPacked;
  GRAFT_CHECK(table.tile_rows == bf16::kFloats.tile_rows, table.tile_rows, " rows");
  for (std::size_t type = 0; type < table.kernels.size(); ++type) {
    const PackedKernel& kernel = bf16::kFloats.kernels[type];
    if (kernel.multiply != nullptr) table.kernels[type] = kernel;
  }
  return table;
}

}  // namespace

CpuFeatures cpu_features() {
  const unsigned long first = getauxval(AT_HWCAP);
  const unsigned long second = getauxval(AT_HWCAP2);
  return {.neon = (first & HWCAP_ASIMD) != 0,
          .dotprod = (first & HWCAP_ASIMDDP) != 0,
          .i8mm = (second & HWCAP2_I8MM) != 0,
          .bf16 = (second & HWCAP2_BF16) != 0};
}

std::span<const LevelName> isa_levels() {
  return kLevels;
}

std::span<const Requirement> isa_requirements() {
  return kRequirements;
}

std::span<const Feature> reported_features() {
  return kReported;
}

std::span<const KernelTable> level_tables() {
  static const std::array tables = {
      KernelTable{.isa = "scalar",
                  .codecs = quant::reference_codecs(),
                  .math = scalar::kMath,
                  .packed = scalar::kPacked,
                  .peak = scalar::kPeak},
      KernelTable{.isa = "neon",
                  .codecs = neon::kCodecs,
                  .math = neon::kMath,
                  .packed = neon::kPacked,
                  .peak = neon::kPeak},
      // The levels above only speed up the packed kernels.
      KernelTable{.isa = "dotprod",
                  .codecs = neon::kCodecs,
                  .math = neon::kMath,
                  .packed = dotprod::kPacked,
                  .peak = dotprod::kPeak},
      KernelTable{.isa = "i8mm",
                  .codecs = neon::kCodecs,
                  .math = neon::kMath,
                  .packed = i8mm::kPacked,
                  .peak = i8mm::kPeak},
      KernelTable{.isa = "bf16",
                  .codecs = neon::kCodecs,
                  .math = neon::kMath,
                  .packed = i8mm_and_floats(),
                  .peak = i8mm::kPeak},
  };
  static_assert(tables.size() == kLevels.size());
  return tables;
}

std::vector<const PackedTable*> packed_variants() {
  return {};
}

std::vector<NamedUnpackers> runnable_stored_unpackers() {
  return {{"scalar", &scalar::kStoredUnpackers}, {"neon", &neon::kStoredUnpackers}};
}

}  // namespace graft::kernels::cpu
