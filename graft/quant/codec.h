// Decode (dequantize) and encode (quantize) functions by type: stored blocks to and from float.
// decode is exact: float arithmetic in a fixed order. encode searches for blocks with a small
// squared error. Both work on whole blocks and give the same bits on every instruction set.

#pragma once

#include <array>
#include <cstddef>

#include "graft/tensor/dtype.h"

namespace graft::quant {

struct Codec {
  // n values, a multiple of the type's block_elems; `in` needs no alignment.
  void (*decode)(const std::byte* in, float* out, std::size_t n) = nullptr;
  // Null when the type has no encoder. Block types read NaN as 0 and clamp infinity, so that every
  // decoded value is finite.
  void (*encode)(const float* in, std::byte* out, std::size_t n) = nullptr;
};

// Indexed by DType.
using CodecTable = std::array<Codec, kNumDTypes>;

// The reference, compiled for the baseline instruction set; all others are tested against it.
const CodecTable& reference_codecs();

}  // namespace graft::quant
