#include "graft/models/weights/weight_store.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "graft/base/error.h"
#include "graft/formats/tensor_spec.h"
#include "graft/models/families/family.h"
#include "graft/models/weights/expert_layout.h"
#include "graft/models/weights/unused_tensors.h"
#include "graft/quant/codec.h"

namespace graft::models {
namespace {

using formats::shape_text;
using formats::TensorInfo;
using ops::Weight;

// [n] and [1, n] are the same rows, and [n, 1, m] (the kernel of a convolution) is [n, m].
bool is_same_shape(std::vector<std::int64_t> a, std::vector<std::int64_t> b) {
  std::erase(a, 1);
  std::erase(b, 1);
  return a == b;
}

// Moves whole rows, of any type, from neighbours back to halves. A bias has one value per row.
Weight unpair_rows(Weight weight, const StoredTensor& stored) {
  const std::int64_t num_rows = weight.shape[0];
  const std::int64_t head_dim = num_rows / stored.num_heads;
  if (stored.num_heads * head_dim != num_rows || head_dim % 2 != 0 || head_dim == 0 ||
      (weight.shape.size() == 1 && is_quantized(weight.dtype))) {
    fail(stored.tensor->name, ": shape ", shape_text(weight.shape), " does not divide into ",
         stored.num_heads, " heads with an even head_dim");
  }
  const std::span<const std::byte> from = stored.slice().data;
  const std::size_t row_bytes = from.size() / static_cast<std::size_t>(num_rows);
  auto ordered = std::make_shared<Buffer>(from.size());
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const std::int64_t from_row = formats::rope_pairs_row(row, head_dim);
    std::memcpy(ordered->data() + static_cast<std::size_t>(row) * row_bytes,
                from.data() + static_cast<std::size_t>(from_row) * row_bytes, row_bytes);
  }
  weight.data = ordered->data();
  weight.owned = std::move(ordered);
  return weight;
}

// One projection of one expert, from a tensor in which gate and up alternate.
Weight gather_expert(Weight weight, const StoredTensor& stored, const Checkpoint& checkpoint) {
  std::byte* rows = ops::allocate_rows(weight);
  const std::int64_t num_rows = weight.shape.size() == 1 ? 1 : weight.shape[0];
  StoredExperts experts = stored.experts();
  gather_expert_rows(experts, stored.expert, 0, num_rows, rows);
  if (weight.dtype != DType::F8_E4M3) return weight;
  experts.scales = checkpoint.find(str(stored.tensor->name, "_scale"));
  if (experts.scales == nullptr) fail(stored.tensor->name, "_scale is missing");
  ops::WeightScale scale;
  scale.layout = quant::ScaleLayout::fit(weight.shape, std::array{num_rows, std::int64_t{1}});
  scale.values = expert_scales(experts, stored.expert);
  weight.scale = std::make_shared<const ops::WeightScale>(std::move(scale));
  return weight;
}

// Packed integers, or some rows of a fused tensor of them.
Weight read_integers(Weight weight, const StoredTensor& stored) {
  const formats::RowSource& source = *stored.tensor->row_source;
  const bool is_second = stored.transform == formats::TensorTransform::SecondHalf;
  const std::int64_t first = is_second ? weight.rows() : stored.first_row;
  source.read(first, weight.rows(), ops::allocate_rows(weight));
  weight.column_order = source.column_order();
  return weight;
}

std::vector<float> decode(const TensorInfo& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elems()));
  const auto& codec = quant::reference_codecs()[static_cast<std::size_t>(tensor.dtype)];
  codec.decode(tensor.data.data(), values.data(), values.size());
  return values;
}

// 1 + x of a norm, or -exp(x) of A_log.
Weight compute(Weight weight, const StoredTensor& stored) {
  std::vector<float> values = decode(*stored.tensor);
  for (float& value : values)
    value = stored.transform == formats::TensorTransform::PlusOne ? value + 1.0F : -std::exp(value);
  auto computed = std::make_shared<Buffer>(values.size() * sizeof(float));
  std::memcpy(computed->data(), values.data(), values.size() * sizeof(float));
  weight.data = computed->data();
  weight.owned = std::move(computed);
  weight.computed_from = stored.tensor->dtype;
  return weight;
}

void expect_stored(const TensorInfo& tensor, const std::vector<std::int64_t>& shape) {
  if (tensor.shape != shape) {
    fail(tensor.name, ": shape is ", shape_text(tensor.shape), ", expected ", shape_text(shape),
         " from the configuration");
  }
}

// kv_b_proj from attn_k_b [heads, rank, key_dim] and attn_v_b [heads, value_dim, rank].
Weight join_kv_b(Weight weight, const FoundWeight& found, const formats::KvBShape& shape) {
  expect_stored(*found.stored[0].tensor, {shape.heads, shape.rank, shape.key_dim});
  expect_stored(*found.stored[1].tensor, {shape.heads, shape.value_dim, shape.rank});
  const std::vector<float> keys = decode(*found.stored[0].tensor);
  const std::vector<float> values = decode(*found.stored[1].tensor);
  const std::int64_t key_elems = shape.key_dim * shape.rank;
  const std::int64_t value_elems = shape.value_dim * shape.rank;

  auto joined = std::make_shared<Buffer>((keys.size() + values.size()) * sizeof(float));
  auto* out = reinterpret_cast<float*>(joined->data());
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    formats::transpose(keys.data() + head * key_elems, shape.rank, shape.key_dim,
                       out + shape.key_row(head) * shape.rank);
    std::copy_n(values.data() + head * value_elems, value_elems,
                out + shape.value_row(head) * shape.rank);
  }
  weight.data = joined->data();
  weight.owned = std::move(joined);
  weight.computed_from = found.stored[0].tensor->dtype;
  return weight;
}

// The scales of the part of a tensor that is the weight: of one expert, one half, or of q, k or v.
// `block_rows`: rows of a tile.
StoredTensor part_of_scale(const StoredTensor& weight,
                           const TensorInfo& tensor,
                           std::int64_t block_rows) {
  StoredTensor scale = {.tensor = &tensor};
  if (tensor.num_elems() == 1) return scale;
  if (tensor.shape.size() >= 2) scale.expert = weight.expert;
  const bool is_half = formats::is_half(weight.transform);
  if (!is_half && weight.num_rows == 0) return scale;
  const std::size_t dim = scale.expert >= 0 ? 1 : 0;
  const std::int64_t rows = weight.tensor->shape[dim];
  const std::int64_t per_scale = tensor.shape[dim] == rows ? 1 : block_rows;
  if (tensor.shape[dim] != (rows + per_scale - 1) / per_scale) return scale;  // fit() reports it
  const std::int64_t first = is_half ? rows / 2 : weight.first_row;
  if (first % per_scale != 0) {
    fail(tensor.name, ": a scale of ", per_scale, " rows covers the end of one projection ",
         "and the start of the next, at row ", first);
  }
  if (is_half) {
    scale.transform = weight.transform;
  } else {
    scale.first_row = first / per_scale;
    scale.num_rows = (weight.num_rows + per_scale - 1) / per_scale;
  }
  return scale;
}

// The scales of an FP8 weight are a tensor beside it: one, one per row or one per tile.
std::shared_ptr<const ops::WeightScale> find_scale(const Weight& weight,
                                                   const StoredTensor& stored,
                                                   const Checkpoint& checkpoint) {
  constexpr std::array<std::string_view, 2> kSuffixes = {"_scale_inv", "_scale"};
  if (weight.dtype != DType::F8_E4M3 && weight.dtype != DType::F8_E5M2) return nullptr;
  for (const std::string_view suffix : kSuffixes) {
    const TensorInfo* tensor = checkpoint.find(str(stored.tensor->name, suffix));
    if (tensor == nullptr) continue;
    std::vector<std::int64_t> block = checkpoint.config().quantization.weight_block_size;
    if (block.size() != 2) block = {quant::kScaleBlock, quant::kScaleBlock};
    const formats::TensorSlice slice = part_of_scale(stored, *tensor, block[0]).slice();
    const auto num_scales = static_cast<std::size_t>(std::accumulate(
        slice.shape.begin(), slice.shape.end(), std::int64_t{1}, std::multiplies<>()));
    ops::WeightScale found;
    found.layout = quant::ScaleLayout::fit(weight.shape, slice.shape, block[0], block[1]);
    found.values.resize(num_scales);
    quant::decode_scales(tensor->dtype, slice.data.data(), found.values);
    return std::make_shared<const ops::WeightScale>(std::move(found));
  }
  return nullptr;
}

// The scales of rows that are gathered from `from`, in tiles of as many rows where every tile comes
// from one tile, else row by row.
ops::WeightScale gather_scale(const ops::WeightScale& from,
                              std::int64_t num_rows,
                              const std::function<std::int64_t(std::int64_t)>& source_row) {
  const std::int64_t tile = std::min(from.layout.tile_rows, num_rows);
  const auto scale_row = [&](std::int64_t row) { return from.layout.scale_row(source_row(row)); };
  bool keeps_tiles = true;
  for (std::int64_t row = 0; row < num_rows; ++row)
    keeps_tiles = keeps_tiles && scale_row(row) == scale_row(row - row % tile);
  ops::WeightScale scale = {.layout = from.layout, .values = {}};
  scale.layout.num_rows = scale.layout.matrix_rows = num_rows;
  scale.layout.tile_rows = keeps_tiles ? tile : 1;
  const std::int64_t cols = from.layout.scale_cols;
  for (std::int64_t row = 0; row < num_rows; row += scale.layout.tile_rows) {
    const float* values = from.values.data() + scale_row(row) * cols;
    scale.values.insert(scale.values.end(), values, values + cols);
  }
  return scale;
}

// The rows of q, k and v, of z, of b or of a from a tensor that has them by key head.
Weight gather_heads(Weight weight, const StoredTensor& stored, const Checkpoint& checkpoint) {
  const formats::DeltaHeads heads = delta_heads(checkpoint.config());
  const auto source_row = [&](std::int64_t row) { return heads.source_row(stored.transform, row); };
  const std::size_t row_bytes = weight.row_bytes();
  auto rows = std::make_shared<Buffer>(static_cast<std::size_t>(stored.num_rows) * row_bytes);
  for (std::int64_t row = 0; row < stored.num_rows; ++row) {
    std::memcpy(rows->data() + static_cast<std::size_t>(row) * row_bytes,
                stored.tensor->data.data() + static_cast<std::size_t>(source_row(row)) * row_bytes,
                row_bytes);
  }
  weight.data = rows->data();
  weight.owned = std::move(rows);
  Weight whole;
  whole.dtype = weight.dtype;
  whole.shape = stored.tensor->shape;
  if (const auto scale = find_scale(whole, {.tensor = stored.tensor}, checkpoint)) {
    weight.scale =
        std::make_shared<const ops::WeightScale>(gather_scale(*scale, stored.num_rows, source_row));
  }
  return weight;
}

// Bytes in the files.
std::uint64_t file_bytes(const StoredTensor& stored) {
  if (!is_expert_layout(stored.transform)) return stored.slice().data.size();
  std::int64_t values = 1;
  for (const std::int64_t size : expert_shape(stored.experts()))
    values *= size;
  return bytes_of(expert_dtype(stored.experts()), values);
}

std::string_view expert_name(const ExpertNames& names, std::string_view projection) {
  if (projection == "gate_proj") return names.gate_proj;
  return projection == "up_proj" ? names.up_proj : names.down_proj;
}

}  // namespace

std::string WeightStore::where() const {
  const auto files = index_.checkpoint().files();
  return files.empty() ? "the checkpoint" : files.front().string();
}

Weight WeightStore::get(std::string_view name) const {
  const auto found = index_.find(name);
  if (!found) fail(where(), ": weight ", name, " is missing");
  Weight weight;
  weight.name = name;
  weight.dtype = found->dtype;
  weight.shape = found->shape;
  if (found->stored.size() == 2) {
    return join_kv_b(std::move(weight), *found, kv_b_shape(index_.checkpoint().config()));
  }
  const StoredTensor& stored = found->stored.front();
  if (stored.transform == formats::TensorTransform::RopePairs) {
    return unpair_rows(std::move(weight), stored);
  }
  if (stored.transform == formats::TensorTransform::PlusOne ||
      stored.transform == formats::TensorTransform::NegExp)
    return compute(std::move(weight), stored);
  if (formats::is_split_by_key_head(stored.transform))
    return gather_heads(std::move(weight), stored, index_.checkpoint());
  if (is_expert_layout(stored.transform))
    return gather_expert(std::move(weight), stored, index_.checkpoint());
  if (stored.tensor->row_source) return read_integers(std::move(weight), stored);
  weight.data = stored.slice().data.data();
  weight.scale = find_scale(weight, stored, index_.checkpoint());
  return weight;
}

std::vector<std::string> WeightStore::expert_names(std::string_view experts,
                                                   std::string_view projection) const {
  const ModelConfig& config = index_.checkpoint().config();
  const std::string_view stored = expert_name(config.family->experts, projection);
  std::vector<std::string> names;
  for (std::int64_t expert = 0; expert < config.moe.num_experts; ++expert)
    names.push_back(str(experts, '.', expert, '.', stored, ".weight"));
  return names;
}

std::uint64_t WeightStore::stored_bytes(std::string_view name) const {
  std::uint64_t bytes = 0;
  if (const auto found = index_.find(name)) {
    for (const StoredTensor& stored : found->stored)
      bytes += file_bytes(stored);
  }
  return bytes;
}

std::uint64_t WeightStore::release(std::string_view name) const {
  std::uint64_t bytes = 0;
  if (const auto found = index_.find(name)) {
    for (const StoredTensor& stored : found->stored) {
      index_.checkpoint().release(*stored.tensor);
      bytes += file_bytes(stored);
    }
  }
  return bytes;
}

void WeightStore::check(const plan::Blueprint& blueprint) const {
  constexpr int kMaxNamed = 8;  // enough to show the kind of mistake
  std::string problems;
  int num_problems = 0;
  std::unordered_set<const TensorInfo*> used;
  const auto add = [&](const std::string& text) {
    if (++num_problems <= kMaxNamed) problems += (num_problems == 1 ? " " : "; ") + text;
  };
  blueprint.visit([&](const plan::ModuleSpec& module) {
    for (const plan::WeightSpec& weight : module.weights) {
      if (weight.name.ends_with("_scale_inv")) continue;
      const auto found = index_.find(weight.name);
      if (!found) {
        add(str(weight.name, ": missing"));
        continue;
      }
      for (const StoredTensor& stored : found->stored)
        used.insert({stored.tensor, stored.scales});
      if (!is_same_shape(found->shape, weight.shape)) {
        add(str(weight.name, ": shape is ", shape_text(found->shape), ", expected ",
                shape_text(weight.shape)));
      }
    }
  });
  const ModelConfig& config = index_.checkpoint().config();
  if (num_problems == 0) {
    const std::string unused = unused_tensors_problem(index_.checkpoint().tensors(), used, config);
    if (unused.empty()) return;
    add(unused);
  }
  if (num_problems > kMaxNamed) problems += str("; and ", num_problems - kMaxNamed, " more");
  fail(where(), ": the weights do not match the configuration:", problems);
}

}  // namespace graft::models
