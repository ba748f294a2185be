// Experts as checkpoints of GPT-OSS and Llama 4 store them, and the rows of one projection of one
// expert in them:
//
//   gate_up_proj         [experts, cols, 2 rows]
//   gate_up_proj_bias    [experts, 2 rows]
//   gate_up_proj_blocks  [experts, 2 rows, cols / 32, 16]  MXFP4 codes
//   gate_up_proj_scales  [experts, 2 rows, cols / 32]      E8M0 exponents of the blocks
//   gate_up_proj_scale   [experts, 1, 2 rows]              of FP8
//   down_proj_scale      [experts, rows, 1]                of FP8
//
// Of the 2 rows, 2 r is row r of gate and 2 r + 1 row r of up. Byte i of a block holds the values
// 2 i and 2 i + 1. down_proj, down_proj_blocks and down_proj_scales have the rows of one
// projection. In Llama 4, gate has the first half of the columns of gate_up_proj, up the second.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/formats/tensor_transform.h"
#include "graft/formats/weight_source.h"

namespace graft::models {

// Whether the rows of a weight are gathered by gather_expert_rows().
bool is_expert_layout(formats::TensorTransform transform);

// A stored tensor, its transform and, for MXFP4 and FP8, the tensor of the scales.
struct StoredExperts {
  const formats::TensorInfo* tensor = nullptr;
  const formats::TensorInfo* scales = nullptr;
  formats::TensorTransform transform = formats::TensorTransform::Same;
};

// "gate_up_proj_blocks" → "gate_up_proj_scales"
std::string scales_name(const std::string& blocks_name);

// The type and shape of one expert's weight: [rows, cols], or [values] of a bias. Throws Error when
// the stored tensors do not have the shapes above.
DType expert_dtype(const StoredExperts& stored);
std::vector<std::int64_t> expert_shape(const StoredExperts& stored);

// The scales of the rows of an expert's weight in FP8. Throws Error when there is not one per
// stored row.
std::vector<float> expert_scales(const StoredExperts& stored, std::int64_t expert);

// Rows [begin, begin + count) of an expert's weight; a bias is one row. Values keep their bits.
// Thread-safe.
void gather_expert_rows(const StoredExperts& stored,
                        std::int64_t expert,
                        std::int64_t begin,
                        std::int64_t count,
                        std::byte* out);

}  // namespace graft::models
