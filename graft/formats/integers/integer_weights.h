// Weights of linear layers [rows, cols] that a checkpoint stores as packed integers. A weight is
// (code - zero) * scale, with one scale (and zero) per row and group of columns:
//
//   compressed-tensors  weight_packed      [rows, cols * bits / 32] I32, the first code lowest
//                       weight_scale       [rows, groups]
//                       weight_zero_point  [rows * bits / 32, groups] I32, absent: symmetric
//                       weight_g_idx       [cols] I32, the group of each column; absent: in order
//                       weight             [rows, cols] I8 instead of weight_packed
//   GPTQ                qweight            [cols * bits / 32, rows] I32, the first code lowest
//                       scales             [groups, rows]
//                       qzeros             [groups, rows * bits / 32] I32, minus one in its first
//                                          format
//                       g_idx              [cols] I32
//   AWQ                 qweight            [cols, rows / 8] I32; from the lowest bits on, the
//                                          rows 0, 2, 4, 6, 1, 3, 5, 7 of eight
//                       scales, qzeros     as GPTQ; qzeros in the order of qweight
//
// Codes keep their bits in blocks of Q4_0, Q5_0 or Q8_0; scales become F16. Columns that belong to
// groups in no order (GPTQ's desc_act) are sorted by group: RowSource::column_order().

#pragma once

#include <span>
#include <string>
#include <vector>

#include "graft/formats/integers/integer_config.h"
#include "graft/formats/weight_source.h"

namespace graft::formats {

// The tensors with those of each quantized layer replaced by its weight, "NAME.weight" with a
// `row_source`. Empty when the checkpoint has none. Reads no data. Throws Error (subject: `where`)
// for shapes that do not fit, and for integers that config.json does not explain.
std::vector<TensorInfo> combine_integer_weights(std::span<const TensorInfo> tensors,
                                                const IntegerConfig& config,
                                                const std::string& where);

}  // namespace graft::formats
