// Peak arithmetic of a core: multiply-adds with all operands in registers. Kernels that also load,
// unpack and scale reach a fraction of it.

#pragma once

#include <cstdint>

namespace graft::kernels::cpu {

struct PeakTable {
  // Runs `rounds` rounds of multiply-adds with all factors 1 and returns the sum, which is the
  // number of products: exact for up to 2^20 rounds.
  double (*f32_products)(std::int64_t rounds) = nullptr;
  double (*int8_products)(std::int64_t rounds) = nullptr;  // int8; null: not supported
};

// Call only levels that the CPU supports; table.h selects one.
namespace scalar {
extern const PeakTable kPeak;
}  // namespace scalar

namespace avx2 {
extern const PeakTable kPeak;
}  // namespace avx2

namespace avx512 {
extern const PeakTable kPeak;
}  // namespace avx512

namespace amx {
extern const PeakTable kPeak;
}  // namespace amx

namespace neon {
extern const PeakTable kPeak;
}  // namespace neon

namespace dotprod {
extern const PeakTable kPeak;
}  // namespace dotprod

namespace i8mm {
extern const PeakTable kPeak;
}  // namespace i8mm

}  // namespace graft::kernels::cpu
