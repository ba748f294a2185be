#include "graft/models/weights/expert_layout.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/formats/tensor_spec.h"
#include "graft/quant/blocks.h"

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
  if (gather.value_bytes == sizeof(std::uint16_t)) return gather.run<std::uint16_t>(count, out);
  gather.run<std::uint32_t>(count, out);
}

// The published codes alternate: byte i holds the values 2 i (low) and 2 i + 1 (high). In a block
// of graft, as of ggml, byte i holds the values i and i + 16.
void repack_block(const std::uint8_t* codes, std::uint8_t scale, BlockMXFP4& block) {
  const auto code = [&](std::int64_t value) {
    const std::uint8_t byte = codes[value / 2];
    return static_cast<std::uint8_t>(value % 2 == 0 ? byte & 15U : byte >> 4U);
  };
  block.e = scale;
  for (std::int64_t i = 0; i < kBlockBytes; ++i) {
    block.quants[i] =
        static_cast<std::uint8_t>(code(i) | static_cast<unsigned>(code(i + kBlockBytes)) << 4U);
  }
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
      repack_block(codes + (first + b) * kBlockBytes, scales[first + b], block);
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
  expect_layout(tensor, is_plain(tensor.dtype) && !shape.empty() && shape.back() % parts == 0,
                str("F32, F16 or BF16 with rows of a multiple of ", parts, " values"));
  if (!is_transposed(stored.transform)) {
    expect_layout(tensor, shape.size() == 2, "[experts, values]");
    return {shape[1] / parts};
  }
  expect_layout(tensor, shape.size() == 3, "[experts, in, out]");
  return {shape[2] / parts, shape[1]};
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
