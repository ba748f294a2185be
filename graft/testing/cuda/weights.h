// Random weight matrices of every dtype for the CUDA kernel tests.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "graft/quant/codec.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda::testing {

inline std::vector<DType> weight_types() {
  std::vector<DType> types = {DType::F32, DType::F16, DType::BF16, DType::F8_E4M3, DType::F8_E5M2};
  for (const DTypeInfo& row : kDTypes) {
    if (is_quantized(row.type)) types.push_back(row.type);
  }
  return types;
}

struct TestMatrix {
  std::vector<std::byte> bytes;
  std::vector<float> values;  // [rows, cols], the decoded bytes
};

// Normally distributed values of a model's magnitude. Types without an encoder get random bytes;
// a block is redrawn until every value is finite and below 8 in magnitude.
inline TestMatrix random_matrix(DType type, std::int64_t rows, std::int64_t cols, unsigned seed) {
  const quant::Codec& codec = quant::reference_codecs()[static_cast<std::size_t>(type)];
  std::mt19937 engine(seed);
  const auto count = static_cast<std::size_t>(rows * cols);
  TestMatrix matrix;
  matrix.bytes.resize(bytes_of(type, rows * cols));
  matrix.values.resize(count);
  if (codec.encode != nullptr) {
    std::normal_distribution<float> normal(0.0F, 0.3F);
    for (float& value : matrix.values)
      value = normal(engine);
    codec.encode(matrix.values.data(), matrix.bytes.data(), count);
    codec.decode(matrix.bytes.data(), matrix.values.data(), count);
    return matrix;
  }
  const auto block_bytes = static_cast<std::size_t>(info(type).block_bytes);
  const auto block_values = static_cast<std::size_t>(info(type).block_elems);
  for (std::size_t block = 0; block < count / block_values; ++block) {
    std::byte* bytes = matrix.bytes.data() + block * block_bytes;
    float* values = matrix.values.data() + block * block_values;
    for (bool is_usable = false; !is_usable;) {
      for (std::size_t i = 0; i < block_bytes; ++i)
        bytes[i] = static_cast<std::byte>(engine());
      codec.decode(bytes, values, block_values);
      is_usable = true;
      for (std::size_t i = 0; i < block_values; ++i)
        is_usable = is_usable && std::abs(values[i]) < 8.0F;
    }
  }
  return matrix;
}

inline std::string type_name(DType type) {
  return std::string(name(type));
}

}  // namespace graft::kernels::cuda::testing
