#include "graft/formats/integers/integer_weights.h"

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/formats/integers/integer_rows.h"
#include "graft/formats/name_index.h"
#include "graft/formats/tensor_spec.h"

namespace graft::formats {
namespace {

constexpr std::string_view kPacked = ".weight_packed";
constexpr std::string_view kQweight = ".qweight";
constexpr std::string_view kWeight = ".weight";
constexpr std::int64_t kBlockCols = 32;

using Shape = std::vector<std::int64_t>;

class Combiner {
 public:
  Combiner(std::span<const TensorInfo> tensors,
           const IntegerConfig& config,
           const std::string& where)
      : tensors_(tensors), config_(config), where_(where), index_(tensors) {}

  std::vector<TensorInfo> run() {
    std::unordered_map<std::string_view, TensorInfo> weights;  // by the name of their codes
    for (const TensorInfo& tensor : tensors_) {
      if (auto weight = weight_of(tensor)) weights.emplace(tensor.name, std::move(*weight));
    }
    std::vector<TensorInfo> combined;
    if (weights.empty()) return combined;
    for (const TensorInfo& tensor : tensors_) {
      const auto weight = weights.find(tensor.name);
      if (weight != weights.end()) {
        combined.push_back(std::move(weight->second));
      } else if (!used_.contains(tensor.name)) {
        combined.push_back(tensor);
      }
    }
    return combined;
  }

 private:
  std::optional<TensorInfo> weight_of(const TensorInfo& codes) {
    const std::string_view name = codes.name;
    const auto module = [&](std::string_view suffix) {
      return std::string(name.substr(0, name.size() - suffix.size()));
    };
    if (name.ends_with(kPacked)) {
      return compressed(module(kPacked), codes, IntegerPacking::CompressedTensors);
    }
    if (name.ends_with(kQweight)) return transposed(module(kQweight), codes);
    const bool is_bytes = name.ends_with(kWeight) && codes.dtype == DType::I8;
    if (is_bytes && config_.method == IntegerMethod::CompressedTensors)
      return compressed(module(kWeight), codes, IntegerPacking::Bytes);
    return std::nullopt;
  }

  TensorInfo compressed(const std::string& module,
                        const TensorInfo& codes,
                        IntegerPacking packing) {
    expect_method(codes, config_.method == IntegerMethod::CompressedTensors, "compressed-tensors");
    const bool is_bytes = packing == IntegerPacking::Bytes;
    const IntegerTensors tensors = {.codes = &codes,
                                    .scales = part(module + ".weight_scale"),
                                    .zeros = part(module + ".weight_zero_point"),
                                    .group_of_column = part(module + ".weight_g_idx")};
    part(module + ".weight_shape");
    IntegerLayout layout = {.name = module + ".weight",
                            .packing = packing,
                            .bits = is_bytes ? 8 : config_.bits,
                            .symmetric = tensors.zeros == nullptr || is_bytes};
    expect(codes, is_matrix(codes) && codes.dtype == (is_bytes ? DType::I8 : DType::I32),
           is_bytes ? "I8 [rows, cols]" : "I32 [rows, words]");
    layout.rows = codes.shape[0];
    layout.cols = codes.shape[1] * (is_bytes ? 1 : 32 / layout.bits);
    set_groups_by_row(layout, tensors, codes);
    if (tensors.zeros != nullptr) {
      const Shape want = is_bytes ? Shape{layout.rows, layout.groups}
                                  : Shape{divide_up(layout.rows, 32 / layout.bits), layout.groups};
      expect(*tensors.zeros,
             tensors.zeros->dtype == (is_bytes ? DType::I8 : DType::I32) &&
                 tensors.zeros->shape == want,
             str(is_bytes ? "I8 " : "I32 ", shape_text(want)));
      if (!is_bytes && layout.bits == 8)
        fail(where_, ": ", tensors.zeros->name, ": zero points of 8-bit codes are not supported");
    }
    return finish(std::move(layout), tensors);
  }

  // GPTQ and AWQ: input columns outermost.
  TensorInfo transposed(const std::string& module, const TensorInfo& codes) {
    const bool is_awq = config_.method == IntegerMethod::Awq;
    expect_method(codes, is_awq || config_.method == IntegerMethod::Gptq, "gptq or awq");
    const IntegerTensors tensors = {.codes = &codes,
                                    .scales = part(module + ".scales"),
                                    .zeros = part(module + ".qzeros"),
                                    .group_of_column = part(module + ".g_idx")};
    IntegerLayout layout = {.name = module + ".weight",
                            .packing = is_awq ? IntegerPacking::Awq : IntegerPacking::Gptq,
                            .bits = config_.bits,
                            .symmetric = config_.symmetric,
                            .zeros_minus_one = config_.zeros_minus_one};
    const std::int64_t per_word = 32 / layout.bits;
    expect(codes, is_matrix(codes) && codes.dtype == DType::I32,
           is_awq ? "I32 [cols, words]" : "I32 [words, rows]");
    layout.rows = codes.shape[1] * (is_awq ? per_word : 1);
    layout.cols = codes.shape[0] * (is_awq ? 1 : per_word);
    if (tensors.scales == nullptr)
      fail(where_, ": ", codes.name, ": ", module, ".scales is missing");
    const Shape& scales = tensors.scales->shape;
    expect_scales(*tensors.scales, scales.size() == 2 && scales[1] == layout.rows,
                  str("[groups, ", layout.rows, "]"));
    layout.groups = scales[0];
    if (tensors.zeros == nullptr && !layout.symmetric)
      fail(where_, ": ", codes.name, ": ", module, ".qzeros is missing");
    if (tensors.zeros != nullptr) {
      const Shape want = {layout.groups, layout.rows / per_word};
      expect(*tensors.zeros,
             tensors.zeros->dtype == DType::I32 && tensors.zeros->shape == want &&
                 layout.rows % per_word == 0,
             str("I32 ", shape_text(want)));
    }
    return finish(std::move(layout), tensors);
  }

  // One scale, one per row, or one per row and group.
  void set_groups_by_row(IntegerLayout& layout,
                         const IntegerTensors& tensors,
                         const TensorInfo& codes) const {
    if (tensors.scales == nullptr) fail(where_, ": ", codes.name, ": its weight_scale is missing");
    const Shape& scales = tensors.scales->shape;
    layout.groups = 1;
    if (tensors.scales->num_elems() == 1 && layout.rows != 1) {
      layout.one_scale = true;
    } else {
      const bool is_by_row = (scales.size() == 1 || scales.size() == 2) && scales[0] == layout.rows;
      expect_scales(*tensors.scales, is_by_row,
                    str("[1], [", layout.rows, "] or [", layout.rows, ", groups]"));
      if (scales.size() == 2) layout.groups = scales[1];
    }
    expect_scales(*tensors.scales, true, "");
  }

  TensorInfo finish(IntegerLayout layout, const IntegerTensors& tensors) {
    used_.insert(tensors.codes->name);
    if (layout.rows < 1 || layout.cols < 1 || layout.groups < 1 ||
        layout.cols % layout.groups != 0 || layout.cols / layout.groups % kBlockCols != 0) {
      fail(where_, ": ", tensors.codes->name, ": ", layout.cols, " columns in ", layout.groups,
           " groups, expected groups of a multiple of ", kBlockCols, " columns");
    }
    if (tensors.group_of_column != nullptr) {
      const TensorInfo& groups = *tensors.group_of_column;
      expect(groups, groups.dtype == DType::I32 && groups.shape == Shape{layout.cols},
             str("I32 [", layout.cols, "]"));
    }
    if (tensors.codes->name != layout.name && index_.find(layout.name) != nullptr)
      fail(where_, ": has both ", layout.name, " and ", tensors.codes->name);
    TensorInfo weight{.name = layout.name,
                      .dtype = layout.dtype(),
                      .shape = {layout.rows, layout.cols},
                      .data = tensors.codes->data};
    weight.row_source = std::make_shared<IntegerRows>(std::move(layout), tensors);
    return weight;
  }

  // A size of zero would leave the other without a bound.
  static bool is_matrix(const TensorInfo& tensor) {
    return tensor.shape.size() == 2 && !tensor.data.empty();
  }

  static std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

  const TensorInfo* part(const std::string& name) {
    const TensorInfo* tensor = index_.find(name);
    if (tensor != nullptr) used_.insert(name);
    return tensor;
  }

  void expect(const TensorInfo& tensor, bool is_valid, std::string_view expected) const {
    if (is_valid) return;
    fail(where_, ": ", tensor.name, ": ", name(tensor.dtype), ' ', shape_text(tensor.shape),
         ", expected ", expected);
  }

  void expect_scales(const TensorInfo& scales, bool is_valid, std::string_view expected) const {
    const bool is_float =
        scales.dtype == DType::F16 || scales.dtype == DType::BF16 || scales.dtype == DType::F32;
    expect(scales, is_float, "F16, BF16 or F32");
    expect(scales, is_valid, expected);
  }

  void expect_method(const TensorInfo& tensor, bool is_known, std::string_view expected) const {
    if (is_known) return;
    fail(where_, ": ", tensor.name,
         ": packed integers that quantization_config does not describe, expected quant_method ",
         expected);
  }

  std::span<const TensorInfo> tensors_;
  const IntegerConfig& config_;
  const std::string& where_;
  NameIndex index_;
  std::unordered_set<std::string> used_;
};

}  // namespace

std::vector<TensorInfo> combine_integer_weights(std::span<const TensorInfo> tensors,
                                                const IntegerConfig& config,
                                                const std::string& where) {
  return Combiner(tensors, config, where).run();
}

}  // namespace graft::formats
