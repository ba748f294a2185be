// Activations between primitives and the formats they are stored in. input_format() of the consumer
// is the format it multiplies; the producer returns the activations in that format or as f32.

#pragma once

#include <cstdint>

#include "graft/tensor/tensor.h"

namespace graft::ops {

enum class ActivationFormat : std::uint8_t { F32, Int8 };

// Rows quantized to int8 in groups of 32 columns: value = scale * quant. The sum of each group's
// values is stored after its scale, for weight types with minimums.
struct Int8Rows {
  std::int8_t* quants = nullptr;  // [rows, cols]
  float* scales = nullptr;        // [rows, cols / 32, 2]: scale, sum
};

// Rows on one device: f32, int8 or both. An f32 tensor converts implicitly.
struct Activation {
  TensorView f32;  // [rows, cols]; data is null when the rows exist as int8 only
  Int8Rows int8 = {};

  Activation(TensorView rows) : f32(rows) {}  // NOLINT(google-explicit-constructor)
  Activation(TensorView rows, const Int8Rows& quantized) : f32(rows), int8(quantized) {}

  bool has_f32() const { return f32.data != nullptr; }
  bool has_int8() const { return int8.quants != nullptr; }
  std::int64_t rows() const { return f32.rows(); }
  std::int64_t cols() const { return f32.cols(); }
  Device device() const { return f32.device; }
};

}  // namespace graft::ops
