// Weights with a tensor of scales beside them, as DeepSeek-V4 publishes them. NAME.weight has the
// scales NAME.scale, of type F8_E8M0 (byte b is 2^(b - 127)), which is read as U8:
//
//   FP8  weight [rows, cols] F8_E4M3       scale [rows / 128, cols / 128], rounded up
//   FP4  weight [rows, cols / 2] I8, E2M1  scale [rows, cols / 32]
//
// Byte i of a row of FP4 codes holds the values 2 i (low bits) and 2 i + 1. FP4 weights are read as
// MXFP4, with the same bits; their scales may also be named NAME.weight_scale_inv or
// NAME.weight_scale.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graft/formats/weight_source.h"
#include "graft/quant/blocks.h"

namespace graft::formats {

// The tensors with FP4 weights and their scales replaced by "NAME.weight" with a `row_source`, and
// the scales of FP8 weights named "NAME.weight_scale_inv", as other checkpoints name them. Empty
// when the checkpoint has neither. Reads no data. Throws Error (subject: `where`) for shapes that
// do not fit.
std::vector<TensorInfo> combine_block_scales(std::span<const TensorInfo> tensors,
                                             const std::string& where);

// 16 bytes of codes that alternate as above, as a block of graft and ggml: byte i holds the values
// i and i + 16.
void repack_mxfp4(const std::uint8_t* codes, std::uint8_t scale, quant::BlockMXFP4& block);

}  // namespace graft::formats
