// The CPU kernels of one instruction set as a table of function pointers. Kernels take pointers,
// sizes and strides; they allocate nothing and report no errors.

#pragma once

#include <span>
#include <string_view>

#include "graft/kernels/cpu/math.h"
#include "graft/kernels/cpu/packed/packed.h"
#include "graft/kernels/cpu/peak.h"
#include "graft/quant/codec.h"

namespace graft::kernels::cpu {

struct KernelTable {
  std::string_view isa;
  quant::CodecTable codecs;
  MathTable math;
  PackedTable packed;
  PeakTable peak;
};

// The table of the highest level this CPU supports, selected once. GRAFT_CPU_ISA=LEVEL (scalar,
// avx2, avx512, amx; on ARM64 scalar, neon, dotprod, i8mm, bf16) overrides; throws Error for an
// unknown or unsupported level.
const KernelTable& kernels();

// All tables this CPU supports, lowest level first: for tests and benchmarks.
std::span<const KernelTable* const> runnable_kernels();

// A table per level of isa_levels(), in their order; defined in levels.cpp of the CPU family.
std::span<const KernelTable> level_tables();

}  // namespace graft::kernels::cpu
