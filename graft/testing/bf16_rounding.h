// For tests: AMX and BF16 of ARM64 round the activations of products with 8- and 16-bit floats, and
// F16 weights, to BF16. Results then differ by what BF16 rounds, and a last bit of x more or less
// by a step of BF16.

#pragma once

#include "graft/kernels/cpu/table.h"

namespace graft {

inline bool rounds_to_bf16() {
  const auto isa = kernels::cpu::kernels().isa;
  return isa == "amx" || isa == "bf16";
}

}  // namespace graft
