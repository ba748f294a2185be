#include "graft/tensor/tensor.h"

#include <algorithm>

namespace graft {

TensorView::TensorView(void* values,
                       DType type,
                       std::initializer_list<std::int64_t> dims,
                       Device where)
    : data(values), dtype(type), rank(static_cast<int>(dims.size())), device(where) {
  GRAFT_CHECK(dims.size() <= shape.size(), dims.size(), " dimensions");
  std::ranges::copy(dims, shape.begin());
}

std::int64_t TensorView::rows() const {
  std::int64_t product = 1;
  for (int i = 0; i + 1 < rank; ++i)
    product *= shape[static_cast<std::size_t>(i)];
  return product;
}

TensorView TensorView::slice(std::int64_t begin, std::int64_t count) const {
  GRAFT_DCHECK(begin >= 0 && count >= 0 && begin + count <= rows(), begin, " + ", count, " of ",
               rows());
  auto* first =
      static_cast<std::byte*>(data) + static_cast<std::size_t>(begin) * bytes_of(dtype, cols());
  return {first, dtype, {count, cols()}, device};
}

}  // namespace graft
