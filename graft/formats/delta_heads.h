// The heads of a gated delta-rule layer, and the row arithmetic of the tensors that checkpoints
// fuse or reorder by head (TensorTransform). Value heads are grouped by key head in Hugging Face's
// order; GGUF files of Qwen3.5 have the first of every group, then the second, and so on (tiled).

#pragma once

#include <cstdint>

#include "graft/formats/tensor_transform.h"

namespace graft::formats {

struct DeltaHeads {
  std::int64_t num_key_heads = 0;
  std::int64_t num_value_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;

  std::int64_t key_rows() const { return num_key_heads * key_dim; }
  std::int64_t value_rows() const { return num_value_heads * value_dim; }
  std::int64_t group() const { return num_value_heads / num_key_heads; }

  // Rows of the tensor that the transform reads, and of the one it makes.
  std::int64_t fused_rows(TensorTransform transform) const {
    switch (transform) {
      case TensorTransform::QkvzQkv:
      case TensorTransform::QkvzZ:
        return 2 * (key_rows() + value_rows());
      case TensorTransform::BaB:
      case TensorTransform::BaA:
        return 2 * num_value_heads;
      default:
        return num_rows(transform);
    }
  }
  std::int64_t num_rows(TensorTransform transform) const {
    switch (transform) {
      case TensorTransform::QkvzQkv:
      case TensorTransform::TiledQkv:
        return 2 * key_rows() + value_rows();
      case TensorTransform::QkvzZ:
      case TensorTransform::TiledValues:
      case TensorTransform::TiledColumns:
        return value_rows();
      default:
        return num_value_heads;
    }
  }

  // The grouped value head that is tiled value head `head`.
  std::int64_t grouped_head(std::int64_t head) const {
    return head % num_key_heads * group() + head / num_key_heads;
  }

  // The row of the source that becomes row `row`; columns for TiledColumns.
  std::int64_t source_row(TensorTransform transform, std::int64_t row) const {
    const std::int64_t qkvz = 2 * key_dim + 2 * group() * value_dim;  // rows of one key head
    switch (transform) {
      case TensorTransform::QkvzQkv:
        if (row < 2 * key_rows()) {
          const std::int64_t in_part = row % key_rows();
          return in_part / key_dim * qkvz + row / key_rows() * key_dim + in_part % key_dim;
        }
        return value_row(row - 2 * key_rows(), qkvz, 2 * key_dim);
      case TensorTransform::QkvzZ:
        return value_row(row, qkvz, 2 * key_dim + group() * value_dim);
      case TensorTransform::BaB:
        return row / group() * 2 * group() + row % group();
      case TensorTransform::BaA:
        return row / group() * 2 * group() + group() + row % group();
      case TensorTransform::TiledQkv:
        if (row < 2 * key_rows()) return row;
        return 2 * key_rows() + tiled_row(row - 2 * key_rows());
      case TensorTransform::TiledValues:
      case TensorTransform::TiledColumns:
        return tiled_row(row);
      case TensorTransform::TiledHeads:
      case TensorTransform::TiledNegExp:
        return grouped_head(row);
      default:
        return row;
    }
  }

 private:
  std::int64_t value_row(std::int64_t row, std::int64_t stride, std::int64_t offset) const {
    const std::int64_t head = row / value_dim;
    return head / group() * stride + offset + head % group() * value_dim + row % value_dim;
  }
  std::int64_t tiled_row(std::int64_t row) const {
    return grouped_head(row / value_dim) * value_dim + row % value_dim;
  }
};

}  // namespace graft::formats
