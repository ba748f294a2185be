#include "graft/formats/tensor_transform.h"

namespace graft::formats {

void transpose(const float* in, std::int64_t rows, std::int64_t cols, float* out) {
  for (std::int64_t col = 0; col < cols; ++col) {
    for (std::int64_t row = 0; row < rows; ++row)
      *out++ = in[row * cols + col];
  }
}

TensorSlice slice_of(const TensorInfo& tensor, TensorTransform transform, std::int64_t expert) {
  TensorSlice slice{.shape = tensor.shape, .data = tensor.data};
  if (expert >= 0) {
    const std::size_t expert_bytes = slice.data.size() / static_cast<std::size_t>(slice.shape[0]);
    slice.data = slice.data.subspan(static_cast<std::size_t>(expert) * expert_bytes, expert_bytes);
    slice.shape.erase(slice.shape.begin());
  }
  if (is_half(transform)) {
    const std::size_t half_bytes = slice.data.size() / 2;
    slice.data = transform == TensorTransform::FirstHalf ? slice.data.first(half_bytes)
                                                         : slice.data.last(half_bytes);
    slice.shape[0] /= 2;
  }
  return slice;
}

TensorSlice slice_of_rows(const TensorInfo& tensor, std::int64_t first, std::int64_t count) {
  const std::size_t row_bytes = tensor.data.size() / static_cast<std::size_t>(tensor.shape[0]);
  TensorSlice slice{.shape = tensor.shape,
                    .data = tensor.data.subspan(static_cast<std::size_t>(first) * row_bytes,
                                                static_cast<std::size_t>(count) * row_bytes)};
  slice.shape[0] = count;
  return slice;
}

bool has_expert(const TensorInfo& tensor, std::int64_t expert) {
  return tensor.shape.size() >= 2 && expert < tensor.shape[0];
}

}  // namespace graft::formats
