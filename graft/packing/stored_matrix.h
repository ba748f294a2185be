// A weight matrix as a checkpoint stores it: what is packed, and the key of its panels in the
// cache.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "graft/quant/fp8_scale.h"
#include "graft/tensor/dtype.h"

namespace graft::packing {

struct StoredMatrix {
  std::string_view name;  // of the weight
  DType dtype = DType::F32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::byte* data = nullptr;                   // [rows, cols], rows contiguous
  const quant::ScaleLayout* scale_layout = nullptr;  // of FP8 weights; null: not scaled
  const float* scales = nullptr;                     // [scale_layout->num_scales()]
};

}  // namespace graft::packing
