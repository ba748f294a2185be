// The integer quantization that config.json declares in "quantization_config": compressed-tensors,
// GPTQ or AWQ. Which tensors are quantized, and in groups of how many columns, the files say
// themselves (integer_weights.h); the rest is for them and for plans without files.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/text/regex.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/tensor/dtype.h"

namespace graft::formats {

enum class IntegerMethod : std::uint8_t { None, CompressedTensors, Gptq, Awq };

struct IntegerConfig {
  IntegerMethod method = IntegerMethod::None;
  std::int64_t bits = 4;  // 4 or 8
  bool symmetric = true;  // no zero points, or all in the middle of the codes
  // GPTQ's first format stores zero points minus one.
  bool zeros_minus_one = false;
  // Modules that are not quantized: names, "re:" with a regular expression that matches from the
  // start; for AWQ parts of names.
  std::vector<std::string> ignored = {};

  bool operator==(const IntegerConfig&) const = default;
};

// `quantization` is the object "quantization_config". FP8, MXFP4 and unknown methods are
// IntegerMethod::None; values without support are added to the problems of the fields.
IntegerConfig read_integer_config(const Fields& quantization);

// The type that holds such codes and scales without loss: Q4_0 (4 bits, zero point 8), Q5_0 (4 bits
// minus any zero point are 5 bits) or Q8_0.
DType integer_dtype(std::int64_t bits, bool symmetric);

// Whether a module is in the list of ignored ones.
class IgnoredModules {
 public:
  explicit IgnoredModules(const IntegerConfig& config);  // throws Error for an invalid pattern
  bool contains(std::string_view module) const;

 private:
  std::vector<std::string> names_;
  std::vector<Regex> patterns_;
  bool are_parts_;  // names_ are parts of names
};

}  // namespace graft::formats
