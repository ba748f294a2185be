// For the tests of packed integers: a weight quantized and packed as compressed-tensors, GPTQ or
// AWQ publish it, and the values that it stands for. Written from the layouts in
// graft/formats/integers/integer_weights.h, one code at a time.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/formats/integers/integer_rows.h"
#include "graft/formats/weight_source.h"
#include "graft/quant/codec.h"

namespace graft::formats::test {

struct IntegerCase {
  std::string_view name;
  IntegerPacking packing = IntegerPacking::CompressedTensors;
  std::int64_t bits = 4;
  std::int64_t group = 32;  // columns; -1: one group
  bool symmetric = true;
  bool act_order = false;        // columns of a group are spread over the row
  bool zeros_minus_one = false;  // GPTQ's first format
  DType scale = DType::F16;
};

// "quantization_config" of a checkpoint with such layers.
inline std::string quantization_json(const IntegerCase& c) {
  const std::string sym = c.symmetric ? "true" : "false";
  if (c.packing == IntegerPacking::Gptq) {
    return str(R"({"quant_method": "gptq", "bits": )", c.bits, R"(, "group_size": )", c.group,
               R"(, "desc_act": )", c.act_order ? "true" : "false", R"(, "sym": )", sym,
               c.zeros_minus_one ? "" : R"(, "checkpoint_format": "gptq_v2")", "}");
  }
  if (c.packing == IntegerPacking::Awq) {
    return str(R"({"quant_method": "awq", "bits": 4, "group_size": )", c.group,
               R"(, "zero_point": )", c.symmetric ? "false" : "true", R"(, "version": "gemm"})");
  }
  return str(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": )",
             R"(["Linear"], "weights": {"num_bits": )", c.bits, R"(, "type": "int", "symmetric": )",
             sym, "}}}}");
}

struct PackedTensor {
  std::string suffix;  // after the name of the module
  DType dtype = DType::I32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

struct PackedLayer {
  std::vector<PackedTensor> tensors;
  std::vector<float> values;  // [rows, cols]: what the tensors stand for
};

class LayerPacker {
 public:
  LayerPacker(const IntegerCase& c, std::span<const float> weight, std::int64_t cols)
      : c_(c),
        weight_(weight),
        rows_(static_cast<std::int64_t>(weight.size()) / cols),
        cols_(cols),
        groups_(c.group < 0 ? 1 : cols / c.group) {}

  PackedLayer pack() {
    quantize();
    PackedLayer layer;
    layer.values.resize(weight_.size());
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t col = 0; col < cols_; ++col) {
        const std::size_t at = at_group(row, group_of(col));
        layer.values[static_cast<std::size_t>(row * cols_ + col)] =
            static_cast<float>(code(row, col) - zeros_[at]) * scales_[at];
      }
    }
    const bool is_by_row =
        c_.packing == IntegerPacking::CompressedTensors || c_.packing == IntegerPacking::Bytes;
    layer.tensors = is_by_row ? pack_by_row() : pack_by_column();
    return layer;
  }

 private:
  std::int64_t group_of(std::int64_t col) const {
    // 5 and the number of columns, a power of two times 3 at most, have no common divisor.
    const std::int64_t place = c_.act_order ? col * 5 % cols_ : col;
    return place / (cols_ / groups_);
  }
  std::size_t at_group(std::int64_t row, std::int64_t group) const {
    return static_cast<std::size_t>(row * groups_ + group);
  }
  int code(std::int64_t row, std::int64_t col) const {
    return codes_[static_cast<std::size_t>(row * cols_ + col)];
  }

  // Scales rounded to their type; zero points from the smallest value of the group.
  void quantize() {
    const int max_code = (1 << c_.bits) - 1;
    const int middle = 1 << (c_.bits - 1);
    scales_.resize(static_cast<std::size_t>(rows_ * groups_));
    zeros_.assign(scales_.size(), middle);
    codes_.resize(weight_.size());
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t group = 0; group < groups_; ++group) {
        float low = 0;
        float high = 0;
        for (std::int64_t col = 0; col < cols_; ++col) {
          if (group_of(col) != group) continue;
          low = std::min(low, weight_[static_cast<std::size_t>(row * cols_ + col)]);
          high = std::max(high, weight_[static_cast<std::size_t>(row * cols_ + col)]);
        }
        const std::size_t at = at_group(row, group);
        const float span = c_.symmetric ? 2 * std::max(-low, high) : high - low;
        scales_[at] = rounded(std::max(span / static_cast<float>(max_code), 1e-4F));
        if (!c_.symmetric)
          zeros_[at] = std::clamp(static_cast<int>(std::lround(-low / scales_[at])), 1, max_code);
      }
      for (std::int64_t col = 0; col < cols_; ++col) {
        const auto place = static_cast<std::size_t>(row * cols_ + col);
        const std::size_t at = at_group(row, group_of(col));
        const auto value = static_cast<int>(std::lround(weight_[place] / scales_[at]));
        codes_[place] = std::clamp(value + zeros_[at], 0, max_code);
      }
    }
  }

  std::vector<std::byte> scale_bytes(const std::vector<float>& values) const {
    std::vector<std::byte> bytes(bytes_of(c_.scale, std::ssize(values)));
    quant::reference_codecs()[static_cast<std::size_t>(c_.scale)].encode(
        values.data(), bytes.data(), values.size());
    return bytes;
  }
  float rounded(float value) const {
    const std::vector<std::byte> bytes = scale_bytes({value});
    quant::reference_codecs()[static_cast<std::size_t>(c_.scale)].decode(bytes.data(), &value, 1);
    return value;
  }

  static PackedTensor words(std::string suffix,
                            std::vector<std::int64_t> shape,
                            const std::vector<std::uint32_t>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(std::uint32_t));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return {std::move(suffix), DType::I32, std::move(shape), std::move(bytes)};
  }
  PackedTensor scales(std::string suffix, bool by_row) const {
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows_ * groups_; ++i) {
      values.push_back(by_row ? scales_[static_cast<std::size_t>(i)]
                              : scales_[at_group(i % rows_, i / rows_)]);
    }
    const std::vector<std::int64_t> shape = {by_row ? rows_ : groups_, by_row ? groups_ : rows_};
    return {std::move(suffix), c_.scale, shape, scale_bytes(values)};
  }
  PackedTensor group_indices(std::string suffix) const {
    std::vector<std::uint32_t> groups;
    for (std::int64_t col = 0; col < cols_; ++col)
      groups.push_back(static_cast<std::uint32_t>(group_of(col)));
    return words(std::move(suffix), {cols_}, groups);
  }

  std::vector<PackedTensor> pack_by_row() const {
    std::vector<PackedTensor> tensors = {scales(".weight_scale", true)};
    const std::int64_t per_word = 32 / c_.bits;
    if (c_.packing == IntegerPacking::Bytes) {
      PackedTensor bytes{".weight", DType::I8, {rows_, cols_}, {}};
      for (const int value : codes_)
        bytes.bytes.push_back(static_cast<std::byte>(static_cast<std::int8_t>(value - 128)));
      tensors.push_back(std::move(bytes));
      return tensors;
    }
    std::vector<std::uint32_t> packed(static_cast<std::size_t>(rows_ * cols_ / per_word));
    for (std::size_t i = 0; i < codes_.size(); ++i) {
      const auto shift = i % static_cast<std::size_t>(per_word) * static_cast<std::size_t>(c_.bits);
      packed[i / static_cast<std::size_t>(per_word)] |= static_cast<std::uint32_t>(codes_[i])
                                                        << shift;
    }
    tensors.push_back(words(".weight_packed", {rows_, cols_ / per_word}, packed));
    tensors.push_back(
        words(".weight_shape", {2},
              {static_cast<std::uint32_t>(rows_), static_cast<std::uint32_t>(cols_)}));
    if (c_.act_order) tensors.push_back(group_indices(".weight_g_idx"));
    if (c_.symmetric) return tensors;
    const std::int64_t zero_rows = (rows_ + per_word - 1) / per_word;
    std::vector<std::uint32_t> zeros(static_cast<std::size_t>(zero_rows * groups_));
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t group = 0; group < groups_; ++group) {
        zeros[at_group(row / per_word, group)] |=
            static_cast<std::uint32_t>(zeros_[at_group(row, group)])
            << static_cast<std::uint32_t>(row % per_word * c_.bits);
      }
    }
    tensors.push_back(words(".weight_zero_point", {zero_rows, groups_}, zeros));
    return tensors;
  }

  std::vector<PackedTensor> pack_by_column() const {
    const bool is_awq = c_.packing == IntegerPacking::Awq;
    const std::int64_t per_word = 32 / c_.bits;
    // The row that is at each place of a word, from the lowest bits on.
    constexpr std::int64_t kAwqRows[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    const auto row_at = [&](std::int64_t first, std::int64_t place) {
      return first + (is_awq ? kAwqRows[place] : place);
    };
    std::vector<std::uint32_t> codes;
    const std::int64_t outer = is_awq ? cols_ : cols_ / per_word;
    const std::int64_t inner = is_awq ? rows_ / per_word : rows_;
    for (std::int64_t i = 0; i < outer * inner; ++i) {
      std::uint32_t word = 0;
      for (std::int64_t place = 0; place < per_word; ++place) {
        const int value = is_awq ? code(row_at(i % inner * per_word, place), i / inner)
                                 : code(i % inner, i / inner * per_word + place);
        word |= static_cast<std::uint32_t>(value) << static_cast<std::uint32_t>(place * c_.bits);
      }
      codes.push_back(word);
    }
    std::vector<std::uint32_t> zeros;
    for (std::int64_t i = 0; i < groups_ * (rows_ / per_word); ++i) {
      std::uint32_t word = 0;
      for (std::int64_t place = 0; place < per_word; ++place) {
        const std::int64_t row = row_at(i % (rows_ / per_word) * per_word, place);
        const int stored =
            zeros_[at_group(row, i / (rows_ / per_word))] - (c_.zeros_minus_one ? 1 : 0);
        word |= static_cast<std::uint32_t>(stored) << static_cast<std::uint32_t>(place * c_.bits);
      }
      zeros.push_back(word);
    }
    std::vector<PackedTensor> tensors = {scales(".scales", false),
                                         words(".qweight", {outer, inner}, codes),
                                         words(".qzeros", {groups_, rows_ / per_word}, zeros)};
    if (!is_awq) tensors.push_back(group_indices(".g_idx"));
    return tensors;
  }

  IntegerCase c_;
  std::span<const float> weight_;
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t groups_;
  std::vector<int> codes_;
  std::vector<int> zeros_;
  std::vector<float> scales_;
};

inline PackedLayer pack_layer(const IntegerCase& c,
                              std::span<const float> weight,
                              std::int64_t cols) {
  return LayerPacker(c, weight, cols).pack();
}

}  // namespace graft::formats::test
