// The levels of x86-64: their features and kernels.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "graft/kernels/cpu/codecs.h"
#include "graft/kernels/cpu/isa/isa_level.h"
#include "graft/kernels/cpu/table.h"

namespace graft::kernels::cpu {
namespace {

// From the lowest to the highest.
constexpr std::array kLevels = {
    LevelName{"scalar", IsaLevel::Scalar},
    LevelName{"avx2", IsaLevel::Avx2},
    LevelName{"avx512", IsaLevel::Avx512},
    LevelName{"amx", IsaLevel::Amx},
};

constexpr std::array kRequirements = {
    Requirement{IsaLevel::Avx2, {&CpuFeatures::avx2, "avx2"}},
    Requirement{IsaLevel::Avx2, {&CpuFeatures::fma, "fma"}},
    Requirement{IsaLevel::Avx2, {&CpuFeatures::f16c, "f16c"}},
    Requirement{IsaLevel::Avx2, {&CpuFeatures::bmi2, "bmi2"}},
    Requirement{IsaLevel::Avx512, {&CpuFeatures::avx512f, "avx512f"}},
    Requirement{IsaLevel::Avx512, {&CpuFeatures::avx512bw, "avx512bw"}},
    Requirement{IsaLevel::Avx512, {&CpuFeatures::avx512vl, "avx512vl"}},
    Requirement{IsaLevel::Avx512, {&CpuFeatures::avx512dq, "avx512dq"}},
    Requirement{IsaLevel::Avx512, {&CpuFeatures::avx512vnni, "avx512vnni"}},
    Requirement{IsaLevel::Amx, {&CpuFeatures::amx_tile, "amx-tile"}},
    Requirement{IsaLevel::Amx, {&CpuFeatures::amx_int8, "amx-int8"}},
    Requirement{IsaLevel::Amx, {&CpuFeatures::amx_bf16, "amx-bf16"}},
};

constexpr std::array kReported = {
    Feature{&CpuFeatures::avx2, "avx2"},
    Feature{&CpuFeatures::fma, "fma"},
    Feature{&CpuFeatures::f16c, "f16c"},
    Feature{&CpuFeatures::avx512f, "avx512f"},
    Feature{&CpuFeatures::avx512bw, "avx512bw"},
    Feature{&CpuFeatures::avx512vnni, "avx512vnni"},
    Feature{&CpuFeatures::avx512bf16, "avx512bf16"},
    Feature{&CpuFeatures::amx_int8, "amx-int8"},
    Feature{&CpuFeatures::amx_bf16, "amx-bf16"},
};

// Linux enables the tile registers per process on request (arch_prctl ARCH_REQ_XCOMP_PERM).
bool os_grants_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::uint64_t enabled_states() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

bool has_bit(std::uint64_t word, int bit) {
  return (word >> bit & 1) != 0;
}

void detect_amx(CpuFeatures& features) {
  std::uint32_t eax = 0;
  std::uint32_t ebx = 0;
  std::uint32_t ecx = 0;
  std::uint32_t edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || !has_bit(ecx, 27)) return;  // no xgetbv
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || !has_bit(edx, 24)) return;
  const std::uint64_t states = enabled_states();
  if (!has_bit(states, 17) || !has_bit(states, 18) || !os_grants_tiles()) return;
  features.amx_tile = true;
  features.amx_int8 = has_bit(edx, 25);
  features.amx_bf16 = has_bit(edx, 22);
}

}  // namespace

CpuFeatures cpu_features() {
  __builtin_cpu_init();
  CpuFeatures features{
      .avx2 = __builtin_cpu_supports("avx2") != 0,
      .fma = __builtin_cpu_supports("fma") != 0,
      .bmi2 = __builtin_cpu_supports("bmi2") != 0,
      .avx512f = __builtin_cpu_supports("avx512f") != 0,
      .avx512bw = __builtin_cpu_supports("avx512bw") != 0,
      .avx512vl = __builtin_cpu_supports("avx512vl") != 0,
      .avx512dq = __builtin_cpu_supports("avx512dq") != 0,
      .avx512vnni = __builtin_cpu_supports("avx512vnni") != 0,
      .avx512bf16 = __builtin_cpu_supports("avx512bf16") != 0,
      .avx512vbmi =
          __builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512bitalg") != 0,
      .is_amd = __builtin_cpu_is("amd") != 0,
  };
  // clang 14 does not accept "f16c" above; the operating system support is the same as for AVX2.
  std::uint32_t eax = 0;
  std::uint32_t ebx = 0;
  std::uint32_t ecx = 0;
  std::uint32_t edx = 0;
  features.f16c = features.avx2 && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && has_bit(ecx, 29);
  detect_amx(features);
  return features;
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
  static_assert(tables.size() == kLevels.size());
  return tables;
}

std::vector<const PackedTable*> packed_variants() {
  if (!missing_feature(IsaLevel::Avx512, cpu_features()).empty()) return {};
  return {&avx512::kPacked, &avx512::kPackedInPlace};
}

}  // namespace graft::kernels::cpu
