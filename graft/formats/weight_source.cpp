#include "graft/formats/weight_source.h"

namespace graft::formats {

std::int64_t TensorInfo::num_elems() const {
  std::int64_t elems = 1;
  for (const std::int64_t dim : shape) {
    elems *= dim;
  }
  return elems;
}

std::int64_t TensorInfo::row_elems() const {
  return shape.empty() ? 1 : shape.back();
}

std::int64_t TensorInfo::num_rows() const {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) {
    rows *= shape[i];
  }
  return rows;
}

}  // namespace graft::formats
