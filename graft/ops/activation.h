// Activations between primitives and the formats they are stored in. input_format() of the consumer
// is the format it multiplies; the producer returns the activations in that format or as f32.

#pragma once

#include <cstdint>

#include "graft/tensor/tensor.h"

namespace graft::ops {

enum class ActivationFormat : std::uint8_t { F32, Int8, F16 };

// Rows quantized to int8 in groups of 32 columns: value = scale * quant. The sum of each group's
// values is stored after its scale, for weight types with minimums.
struct Int8Rows {
  std::int8_t* quants = nullptr;  // [rows, cols]
  float* scales = nullptr;        // [rows, cols / 32, 2]: scale, sum
};

// Rows in F16 in the order in which the device's kernels read them: value = scale * F16.
struct F16Rows {
  std::uint16_t* values = nullptr;
  float* scales = nullptr;  // [rows]
};

// Rows on one device: f32, another format or both. An f32 tensor converts implicitly.
struct Activation {
  TensorView f32;  // [rows, cols]; data is null when the rows exist in another format only
  Int8Rows int8 = {};
  F16Rows f16 = {};

  Activation(TensorView rows) : f32(rows) {}  // NOLINT(google-explicit-constructor)
  Activation(TensorView rows, const Int8Rows& quantized) : f32(rows), int8(quantized) {}
  Activation(TensorView rows, const F16Rows& halves) : f32(rows), f16(halves) {}

  bool has_f32() const { return f32.data != nullptr; }
  bool has_int8() const { return int8.quants != nullptr; }
  bool has_f16() const { return f16.values != nullptr; }
  std::int64_t rows() const { return f32.rows(); }
  std::int64_t cols() const { return f32.cols(); }
  Device device() const { return f32.device; }
};

}  // namespace graft::ops
