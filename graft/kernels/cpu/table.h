// The CPU kernels of one instruction set, as a table of plain functions. Kernels know bytes, not
// tensors: pointers, sizes and strides in, nothing returned, nothing allocated, no errors.

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

// The best table this machine can run, chosen once. GRAFT_CPU_ISA=scalar|avx2|avx512|amx overrides;
// a level that is unknown or that the processor lacks throws Error.
const KernelTable& kernels();

// Every table this machine can run, the plainest first: for tests and benchmarks.
std::span<const KernelTable* const> runnable_kernels();

}  // namespace graft::kernels::cpu
