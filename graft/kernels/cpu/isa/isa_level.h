// Detects CPU features and selects the instruction-set level (GRAFT_CPU_ISA overrides).

#pragma once

#include <cstdint>
#include <string_view>

namespace graft::kernels::cpu {

enum class IsaLevel : std::uint8_t { Scalar, Avx2, Avx512, Amx };

// CPU features that the operating system has enabled.
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool bmi2 = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512vl = false;
  bool avx512dq = false;
  bool avx512vnni = false;
  bool amx_tile = false;
  bool amx_int8 = false;
  bool amx_bf16 = false;
  bool avx512bf16 = false;  // reported only; no level needs it
  bool avx512vbmi = false;  // with BITALG; no level needs it
  bool is_amd = false;      // selects between two variants of the packed kernels
};

CpuFeatures cpu_features();

// The first missing feature that `level` needs; empty when the level is supported.
std::string_view missing_feature(IsaLevel level, const CpuFeatures& features);

// The level named by GRAFT_CPU_ISA; an empty name selects the highest supported one. Throws Error
// for unknown names and unsupported levels.
IsaLevel choose_level(std::string_view name, const CpuFeatures& features);

}  // namespace graft::kernels::cpu
