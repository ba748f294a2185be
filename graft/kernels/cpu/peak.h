// The most a core's arithmetic gives: products and sums with everything in registers. Kernels that
// also load, unpack and scale reach a share of it.

#pragma once

#include <cstdint>

namespace graft::kernels::cpu {

struct PeakTable {
  // So many rounds of products. All factors are 1, so the sum, which is returned, is the number of
  // products made: exact for up to 2^20 rounds.
  double (*add_float_products)(std::int64_t rounds) = nullptr;
  double (*add_byte_products)(std::int64_t rounds) = nullptr;  // null: no instruction for them
};

// Call only what the processor can run; table.h chooses.
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

}  // namespace graft::kernels::cpu
