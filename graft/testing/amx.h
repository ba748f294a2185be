// For tests: AMX rounds the activations of products with 8- and 16-bit floats, and F16 weights, to
// BF16. Results then differ by what BF16 rounds, and a last bit of x more or less by a step of
// BF16.

#pragma once

#include "graft/kernels/cpu/table.h"

namespace graft {

inline bool rounds_to_bf16() {
  return kernels::cpu::kernels().isa == "amx";
}

}  // namespace graft
