#include "graft/formats/block_scales.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/formats/name_index.h"
#include "graft/formats/tensor_spec.h"

namespace graft::formats {
namespace {

using quant::BlockMXFP4;

constexpr std::int64_t kFp4BlockValues = 32;
constexpr std::int64_t kFp4BlockBytes = 16;  // of codes
constexpr std::string_view kWeightSuffix = ".weight";
constexpr std::string_view kScaleSuffix = ".scale";

class Fp4Rows final : public RowSource {
 public:
  Fp4Rows(const TensorInfo& codes, const TensorInfo& scales) : parts_{codes, scales} {}

  void read(std::int64_t begin, std::int64_t count, std::byte* out) const override {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(parts_[0].data.data());
    const auto* scales = reinterpret_cast<const std::uint8_t*>(parts_[1].data.data());
    const std::int64_t row_blocks = parts_[1].row_elems();
    for (std::int64_t i = begin * row_blocks; i < (begin + count) * row_blocks; ++i) {
      BlockMXFP4 block;
      repack_mxfp4(codes + i * kFp4BlockBytes, scales[i], block);
      std::memcpy(out, &block, sizeof(block));
      out += sizeof(block);
    }
  }
  std::shared_ptr<const std::vector<std::int32_t>> column_order() const override { return nullptr; }
  std::span<const TensorInfo> parts() const override { return parts_; }

 private:
  std::array<TensorInfo, 2> parts_;
};

// The scales of FP4 codes; null: the tensor has no FP4 codes.
const TensorInfo* fp4_scales(const TensorInfo& weight, const NameIndex& index) {
  if (weight.dtype != DType::I8 || !weight.name.ends_with(kWeightSuffix)) return nullptr;
  const std::string module = weight.name.substr(0, weight.name.size() - kWeightSuffix.size());
  for (const std::string_view suffix : {".scale", ".weight_scale_inv", ".weight_scale"}) {
    const TensorInfo* scales = index.find(str(module, suffix));
    if (scales != nullptr && scales->dtype == DType::U8) return scales;
  }
  return nullptr;
}

TensorInfo combine_fp4(const TensorInfo& weight,
                       const TensorInfo& scales,
                       const std::string& where) {
  const bool fits = weight.shape.size() == 2 && scales.shape.size() == 2 &&
                    weight.shape[0] == scales.shape[0] && weight.shape[1] % kFp4BlockBytes == 0 &&
                    weight.shape[1] / kFp4BlockBytes == scales.shape[1];
  if (!fits) {
    fail(where, ": ", weight.name, ": FP4 codes ", shape_text(weight.shape), " with scales ",
         shape_text(scales.shape), ", expected [rows, cols / 2] and [rows, cols / 32]");
  }
  return {.name = weight.name,
          .dtype = DType::MXFP4,
          .shape = {weight.shape[0], scales.shape[1] * kFp4BlockValues},
          .data = weight.data,
          .row_source = std::make_shared<const Fp4Rows>(weight, scales)};
}

// "NAME.weight_scale_inv" of the scales of an FP8 weight; empty: other tensors.
std::string fp8_scale_name(const TensorInfo& tensor, const NameIndex& index) {
  if (!tensor.name.ends_with(kScaleSuffix)) return "";
  std::string weight =
      str(tensor.name.substr(0, tensor.name.size() - kScaleSuffix.size()), kWeightSuffix);
  const TensorInfo* scaled = index.find(weight);
  if (scaled == nullptr || scaled->dtype != DType::F8_E4M3) return "";
  return weight + "_scale_inv";
}

}  // namespace

void repack_mxfp4(const std::uint8_t* codes, std::uint8_t scale, BlockMXFP4& block) {
  const auto code = [&](std::int64_t value) {
    const std::uint8_t byte = codes[value / 2];
    return static_cast<std::uint8_t>(value % 2 == 0 ? byte & 15U : byte >> 4U);
  };
  block.e = scale;
  for (std::int64_t i = 0; i < kFp4BlockBytes; ++i) {
    block.quants[i] =
        static_cast<std::uint8_t>(code(i) | static_cast<unsigned>(code(i + kFp4BlockBytes)) << 4U);
  }
}

std::vector<TensorInfo> combine_block_scales(std::span<const TensorInfo> tensors,
                                             const std::string& where) {
  const NameIndex index(tensors);
  std::unordered_map<std::string_view, TensorInfo> combined;  // by the name of the weight
  std::unordered_set<std::string_view> used;                  // scales of FP4 weights
  for (const TensorInfo& tensor : tensors) {
    const TensorInfo* scales = fp4_scales(tensor, index);
    if (scales == nullptr) continue;
    combined.emplace(tensor.name, combine_fp4(tensor, *scales, where));
    used.insert(scales->name);
  }
  std::vector<TensorInfo> all;
  bool has_changed = !combined.empty();
  for (const TensorInfo& tensor : tensors) {
    if (used.contains(tensor.name)) continue;
    const auto found = combined.find(tensor.name);
    all.push_back(found == combined.end() ? tensor : found->second);
    if (std::string name = fp8_scale_name(tensor, index); !name.empty()) {
      all.back().name = std::move(name);
      has_changed = true;
    }
  }
  return has_changed ? all : std::vector<TensorInfo>{};
}

}  // namespace graft::formats
