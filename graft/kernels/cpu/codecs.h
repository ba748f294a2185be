// The codecs of graft/quant compiled once per instruction set. Call only what the processor can
// run; table.h chooses.

#pragma once

#include "graft/quant/codec.h"

namespace graft::cpu::avx2 {
extern const quant::CodecTable kCodecs;
}  // namespace graft::cpu::avx2

namespace graft::cpu::avx512 {
extern const quant::CodecTable kCodecs;
}  // namespace graft::cpu::avx512
