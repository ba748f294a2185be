// The codecs of graft/quant, compiled once per instruction set. Call only levels that the CPU
// supports; table.h selects one.

#pragma once

#include "graft/quant/codec.h"

namespace graft::kernels::cpu::avx2 {
extern const quant::CodecTable kCodecs;
}  // namespace graft::kernels::cpu::avx2

namespace graft::kernels::cpu::avx512 {
extern const quant::CodecTable kCodecs;
}  // namespace graft::kernels::cpu::avx512

namespace graft::kernels::cpu::neon {
extern const quant::CodecTable kCodecs;
}  // namespace graft::kernels::cpu::neon
