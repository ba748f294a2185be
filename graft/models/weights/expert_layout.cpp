#include "graft/models/weights/expert_layout.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/formats/block_scales.h"
#include "graft/formats/tensor_spec.h"
#include "graft/quant/blocks.h"
#include "graft/quant/fp8_scale.h"

namespace graft::models {
namespace {

using formats::shape_text;
using formats::TensorInfo;
using formats::TensorTransform;
using quant::BlockMXFP4;

constexpr std::int64_t kBlockValues = 32;
constexpr std::int64_t kBlockBytes = 16;  // of codes

// Row r of the weight is stored row (or column) first + r * step. A tensor has the rows of `parts`
// weights.
struct Stride {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t parts = 1;
};

// num_stored: rows (or columns) of the stored tensor.
Stride stride_of(TensorTransform transform, std::int64_t num_stored) {
  switch (transform) {
    case TensorTransform::TransposedEven:
    case TensorTransform::Mxfp4Even:
    case TensorTransform::EvenValues:
      return {.first = 0, .step = 2, .parts = 2};
    case TensorTransform::TransposedOdd:
    case TensorTransform::Mxfp4Odd:
    case TensorTransform::OddValues:
      return {.first = 1, .step = 2, .parts = 2};
    case TensorTransform::TransposedFirst:
      return {.parts = 2};
    case TensorTransform::TransposedSecond:
      return {.first = num_stored / 2, .parts = 2};
    default:
      return {};
  }
}

void expect_layout(const TensorInfo& tensor, bool is_valid, std::string_view expected) {
  if (!is_valid) {
    fail(tensor.name, ": ", name(tensor.dtype), ' ', shape_text(tensor.shape), ", expected ",
         expected);
  }
}

// The bytes of one expert.
std::span<const std::byte> bytes_of_expert(const TensorInfo& tensor, std::int64_t expert) {
  const std::size_t bytes = tensor.data.size() / static_cast<std::size_t>(tensor.shape[0]);
  return tensor.data.subspan(static_cast<std::size_t>(expert) * bytes, bytes);
}

// out[count, rows] = columns first, first + step, … of in[rows, cols]. Tiles keep the rows that are
// read and written in the L1 cache.
struct Gather {
  const std::byte* in = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Stride stride;
  std::size_t value_bytes = 0;

  template <class Value>
  void run(std::int64_t count, std::byte* out) const {
    constexpr std::int64_t kTile = 64;
    for (std::int64_t first = 0; first < rows; first += kTile) {
      const std::int64_t end = std::min(first + kTile, rows);
      for (std::int64_t r = 0; r < count; ++r) {
        const std::int64_t col = stride.first + r * stride.step;
        for (std::int64_t row = first; row < end; ++row) {
          std::memcpy(out + (r * rows + row) * static_cast<std::int64_t>(sizeof(Value)),
                      in + (row * cols + col) * static_cast<std::int64_t>(sizeof(Value)),
                      sizeof(Value));
        }
      }
    }
  }
};

void gather_columns(const Gather& gather, std::int64_t count, std::byte* out) {
  if (gather.value_bytes == sizeof(std::uint8_t)) return gather.run<std::uint8_t>(count, out);
  if (gather.value_bytes == sizeof(std::uint16_t)) return gather.run<std::uint16_t>(count, out);
  gather.run<std::uint32_t>(count, out);
}

void gather_mxfp4(const StoredExperts& stored,
                  std::int64_t expert,
                  std::int64_t begin,
                  std::int64_t count,
                  std::byte* out) {
  const std::int64_t num_blocks = stored.tensor->shape[2];
  const Stride stride = stride_of(stored.transform, stored.tensor->shape[1]);
  const auto* codes =
      reinterpret_cast<const std::uint8_t*>(bytes_of_expert(*stored.tensor, expert).data());
  const auto* scales =
      reinterpret_cast<const std::uint8_t*>(bytes_of_expert(*stored.scales, expert).data());
  for (std::int64_t row = begin; row < begin + count; ++row) {
    const std::int64_t first = (stride.first + row * stride.step) * num_blocks;
    for (std::int64_t b = 0; b < num_blocks; ++b, out += sizeof(BlockMXFP4)) {
      BlockMXFP4 block;
      formats::repack_mxfp4(codes + (first + b) * kBlockBytes, scales[first + b], block);
      std::memcpy(out, &block, sizeof(block));
    }
  }
}

bool is_plain(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

}  // namespace

bool is_expert_layout(TensorTransform transform) {
  return is_mxfp4(transform) || is_transposed(transform) ||
         transform == TensorTransform::EvenValues || transform == TensorTransform::OddValues;
}

std::string scales_name(const std::string& blocks_name) {
  constexpr std::string_view kSuffix = "_blocks";
  return str(std::string_view(blocks_name).substr(0, blocks_name.size() - kSuffix.size()),
             "_scales");
}

DType expert_dtype(const StoredExperts& stored) {
  return is_mxfp4(stored.transform) ? DType::MXFP4 : stored.tensor->dtype;
}

std::vector<std::int64_t> expert_shape(const StoredExperts& stored) {
  const TensorInfo& tensor = *stored.tensor;
  const std::vector<std::int64_t>& shape = tensor.shape;
  const std::int64_t parts = stride_of(stored.transform, 0).parts;
  if (is_mxfp4(stored.transform)) {
    expect_layout(tensor,
                  tensor.dtype == DType::U8 && shape.size() == 4 && shape[3] == kBlockBytes &&
                      shape[1] % parts == 0,
                  "U8 [experts, rows, blocks, 16]");
    if (stored.scales == nullptr) fail(tensor.name, ": ", scales_name(tensor.name), " is missing");
    const std::vector<std::int64_t> per_block(shape.begin(), shape.end() - 1);
    expect_layout(*stored.scales,
                  stored.scales->dtype == DType::U8 && stored.scales->shape == per_block,
                  str("U8 ", shape_text(per_block), " as ", tensor.name));
    return {shape[1] / parts, shape[2] * kBlockValues};
  }
  const bool is_fp8 = is_transposed(stored.transform) && tensor.dtype == DType::F8_E4M3;
  expect_layout(tensor,
                (is_fp8 || is_plain(tensor.dtype)) && !shape.empty() && shape.back() % parts == 0,
                str("F32, F16, BF16 or F8_E4M3 with rows of a multiple of ", parts, " values"));
  if (!is_transposed(stored.transform)) {
    expect_layout(tensor, shape.size() == 2, "[experts, values]");
    return {shape[1] / parts};
  }
  expect_layout(tensor, shape.size() == 3, "[experts, in, out]");
  return {shape[2] / parts, shape[1]};
}

std::vector<float> expert_scales(const StoredExperts& stored, std::int64_t expert) {
  const TensorInfo& scales = *stored.scales;
  const std::int64_t experts = stored.tensor->shape.front();
  const std::int64_t num_stored = stored.tensor->shape.back();
  const bool has_experts = !scales.shape.empty() && scales.shape.front() == experts;
  expect_layout(scales, has_experts && scales.num_elems() == experts * num_stored,
                str(experts, " x ", num_stored, " values as ", stored.tensor->name));
  std::vector<float> all(static_cast<std::size_t>(num_stored));
  quant::decode_scales(scales.dtype, bytes_of_expert(scales, expert).data(), all);
  const Stride stride = stride_of(stored.transform, num_stored);
  std::vector<float> rows;
  for (std::int64_t row = 0; row < num_stored / stride.parts; ++row)
    rows.push_back(all[static_cast<std::size_t>(stride.first + row * stride.step)]);
  return rows;
}

void gather_expert_rows(const StoredExperts& stored,
                        std::int64_t expert,
                        std::int64_t begin,
                        std::int64_t count,
                        std::byte* out) {
  if (is_mxfp4(stored.transform)) return gather_mxfp4(stored, expert, begin, count, out);
  const TensorInfo& tensor = *stored.tensor;
  const bool is_bias = !is_transposed(stored.transform);
  Stride stride = stride_of(stored.transform, tensor.shape.back());
  stride.first += begin * stride.step;
  const std::int64_t cols = tensor.shape.back();
  // A bias is one row, the gathered values of one column each.
  gather_columns({.in = bytes_of_expert(tensor, expert).data(),
                  .rows = is_bias ? 1 : tensor.shape[1],
                  .cols = cols,
                  .stride = stride,
                  .value_bytes = bytes_of(tensor.dtype, 1)},
                 is_bias ? cols / stride.parts : count, out);
}

}  // namespace graft::models
