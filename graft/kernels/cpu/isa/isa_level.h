// Which instruction-set level to run at: what the processor has, and what the user asks for.

#pragma once

#include <cstdint>
#include <string_view>

namespace graft::kernels::cpu {

enum class IsaLevel : std::uint8_t { Scalar, Avx2, Avx512, Amx };

// What of the processor the levels depend on, and the operating system lets us use.
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
  // No level needs these. People ask for the first; the second decides between two forms of a
  // kernel.
  bool avx512bf16 = false;
  bool is_amd = false;
};

CpuFeatures cpu_features();

// The first feature `level` needs that is missing, empty when the level can run.
std::string_view missing_feature(IsaLevel level, const CpuFeatures& features);

// `name` as GRAFT_CPU_ISA gives it; empty means the best that can run. Throws Error for a name that
// is no level and for a level that lacks a feature.
IsaLevel choose_level(std::string_view name, const CpuFeatures& features);

}  // namespace graft::kernels::cpu
