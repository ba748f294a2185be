// TensorView is a pointer, a type, a shape and a device; non-owning, contiguous, passed by value.

#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "graft/base/check.h"
#include "graft/tensor/device.h"
#include "graft/tensor/dtype.h"

namespace graft {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::F32;
  std::array<std::int64_t, 4> shape = {1, 1, 1, 1};  // outermost first; the first `rank` are used
  int rank = 0;
  Device device;

  TensorView() = default;
  TensorView(void* values,
             DType type,
             std::initializer_list<std::int64_t> dims,
             Device where = kCpu);

  // cols: the innermost dimension; rows: the product of all others.
  std::int64_t cols() const { return rank == 0 ? 1 : shape[static_cast<std::size_t>(rank - 1)]; }
  std::int64_t rows() const;
  std::int64_t num_elems() const { return rows() * cols(); }
  std::size_t bytes() const { return bytes_of(dtype, num_elems()); }

  template <class T>
  T* as() const {
    GRAFT_DCHECK(
        is_quantized(dtype) || sizeof(T) == static_cast<std::size_t>(info(dtype).block_bytes),
        name(dtype));
    return static_cast<T*>(data);
  }
  float* f32() const {
    GRAFT_DCHECK(dtype == DType::F32, name(dtype));
    return static_cast<float*>(data);
  }
  float* f32_row(std::int64_t row) const { return f32() + row * cols(); }
  // Rows [begin, begin + count) as a matrix.
  TensorView slice(std::int64_t begin, std::int64_t count) const;
};

}  // namespace graft
