// Decode and encode functions by type: bytes as a file stores them to and from float.
// decode is exact (the value the block means, in float arithmetic of fixed order); encode chooses
// blocks with a small squared error. Both work on whole blocks and are the same bits everywhere.

#pragma once

#include <array>
#include <cstddef>

#include "graft/tensor/dtype.h"

namespace graft::quant {

struct Codec {
  // n values, a multiple of the type's block_elems; `in` needs no alignment.
  void (*decode)(const std::byte* in, float* out, std::size_t n) = nullptr;
  // Null where the type cannot be written. Block types read NaN as 0 and infinity as a very large
  // number, so that every value decoded later is finite.
  void (*encode)(const float* in, std::byte* out, std::size_t n) = nullptr;
};

// Indexed by DType.
using CodecTable = std::array<Codec, kNumDTypes>;

// The reference: compiled for the baseline, what every instruction set is tested against.
const CodecTable& reference_codecs();

}  // namespace graft::quant
