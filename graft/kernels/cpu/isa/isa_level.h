// Detects CPU features and selects the instruction-set level (GRAFT_CPU_ISA overrides). The levels
// of a CPU family and what they need are tables in x86/levels.cpp and arm/levels.cpp beside
// this folder; the build compiles one of them.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace graft::kernels::cpu {

// Of all processor families; within a family from the lowest to the highest.
enum class IsaLevel : std::uint8_t { Scalar, Avx2, Avx512, Amx, Neon, Dotprod, I8mm, Bf16 };

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
  // ARM64. Every such CPU has NEON (Advanced SIMD) with fused multiply-add.
  bool neon = false;
  bool dotprod = false;
  bool i8mm = false;
  bool bf16 = false;
};

struct LevelName {
  std::string_view name;
  IsaLevel level;
};

struct Feature {
  bool CpuFeatures::*is_present;
  std::string_view name;
};

struct Requirement {
  IsaLevel level;  // the lowest level that needs the feature
  Feature feature;
};

// Of this CPU family.
CpuFeatures cpu_features();
std::span<const LevelName> isa_levels();  // from the lowest to the highest
std::span<const Requirement> isa_requirements();
std::span<const Feature> reported_features();  // for `graft doctor`

// The first missing feature that `level` needs; empty when the level is supported.
std::string_view missing_feature(IsaLevel level, const CpuFeatures& features);

// The level named by GRAFT_CPU_ISA; an empty name selects the highest supported one. Throws Error
// for unknown names and unsupported levels.
IsaLevel choose_level(std::string_view name, const CpuFeatures& features);

}  // namespace graft::kernels::cpu
