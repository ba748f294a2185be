#include "graft/models/weights.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "graft/base/error.h"
#include "graft/formats/tensor_spec.h"
#include "graft/quant/codec.h"

namespace graft::models {
namespace {

using formats::Layout;
using formats::ModelConfig;
using formats::shape_text;
using formats::TensorInfo;
using ops::Weight;

// [n] and [1, n] are the same rows.
bool is_same_shape(std::vector<std::int64_t> a, std::vector<std::int64_t> b) {
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.insert(b.begin(), 1);
  return a == b;
}

// The rows of each head from neighbours (2i, 2i + 1) back to halves (i, i + d/2). Whole rows move,
// so that their type does not matter. A bias is a column: every value is a row.
Weight unpair_rows(Weight weight, const Place& place) {
  const auto num_rows = static_cast<std::size_t>(weight.shape[0]);
  const auto num_heads = static_cast<std::size_t>(place.num_heads);
  const std::size_t half = num_rows / num_heads / 2;
  if (num_heads * half * 2 != num_rows ||
      (weight.shape.size() == 1 && is_quantized(weight.dtype))) {
    fail(place.tensor->name, ": ", shape_text(weight.shape), " is no list of rows for ", num_heads,
         " heads");
  }
  const std::span<const std::byte> stored = place.bytes();
  const std::size_t row_bytes = stored.size() / num_rows;
  auto ordered = std::make_shared<Buffer>(stored.size());
  for (std::size_t row = 0; row < num_rows; ++row) {
    const std::size_t head = row / (2 * half);
    const std::size_t in_head = row % (2 * half);
    const std::size_t from = head * 2 * half + 2 * (in_head % half) + in_head / half;
    std::memcpy(ordered->data() + row * row_bytes, stored.data() + from * row_bytes, row_bytes);
  }
  weight.data = ordered->data();
  weight.owned = std::move(ordered);
  return weight;
}

std::vector<float> decode(const TensorInfo& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elems()));
  const auto& codec = quant::reference_codecs()[static_cast<std::size_t>(tensor.dtype)];
  codec.decode(tensor.data.data(), values.data(), values.size());
  return values;
}

void expect_stored(const TensorInfo& tensor, const std::vector<std::int64_t>& shape) {
  if (tensor.shape != shape) {
    fail(tensor.name, ": the file has ", shape_text(tensor.shape), ", the configuration asks for ",
         shape_text(shape));
  }
}

// kv_b_proj from attn_k_b [heads, rank, nope], whose matrices are transposed, and attn_v_b
// [heads, v, rank]: of every head first the rows of the keys, then those of the values.
Weight join_kv_b(Weight weight, const FoundWeight& found, const ModelConfig& config) {
  const std::int64_t heads = config.num_attention_heads;
  const std::int64_t rank = config.mla.kv_lora_rank;
  const std::int64_t nope = config.mla.qk_nope_head_dim;
  const std::int64_t value_dim = config.mla.v_head_dim;
  expect_stored(*found.places[0].tensor, {heads, rank, nope});
  expect_stored(*found.places[1].tensor, {heads, value_dim, rank});
  const std::vector<float> keys = decode(*found.places[0].tensor);
  const std::vector<float> values = decode(*found.places[1].tensor);

  auto joined = std::make_shared<Buffer>((keys.size() + values.size()) * sizeof(float));
  auto* out = reinterpret_cast<float*>(joined->data());
  const float* key = keys.data();
  const float* value = values.data();
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t row = 0; row < nope; ++row) {
      for (std::int64_t col = 0; col < rank; ++col)
        *out++ = key[col * nope + row];
    }
    out = std::copy_n(value, value_dim * rank, out);
    key += rank * nope;
    value += value_dim * rank;
  }
  weight.data = joined->data();
  weight.owned = std::move(joined);
  return weight;
}

// The scales of an FP8 weight stand beside it: one, one per row or one per tile.
std::shared_ptr<const ops::WeightScale> find_scale(const Weight& weight,
                                                   const Place& place,
                                                   const formats::WeightSource& source) {
  constexpr std::array<std::string_view, 2> kSuffixes = {"_scale_inv", "_scale"};
  if (weight.dtype != DType::F8_E4M3 && weight.dtype != DType::F8_E5M2) return nullptr;
  for (const std::string_view suffix : kSuffixes) {
    Place scale = place;
    scale.tensor = source.find(str(place.tensor->name, suffix));
    if (scale.tensor == nullptr) continue;
    if (scale.tensor->shape.size() < 2) scale.expert = -1;  // one scale for all experts
    const auto shape = scale.shape();
    const auto num_scales = static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
    const std::vector<std::int64_t>& block = source.config().quantization.weight_block_size;
    ops::WeightScale found;
    found.layout = block.size() == 2
                       ? quant::ScaleLayout::fit(weight.shape, shape, block[0], block[1])
                       : quant::ScaleLayout::fit(weight.shape, shape);
    found.values.resize(num_scales);
    quant::reference_codecs()[static_cast<std::size_t>(scale.tensor->dtype)].decode(
        scale.bytes().data(), found.values.data(), num_scales);
    return std::make_shared<const ops::WeightScale>(std::move(found));
  }
  return nullptr;
}

// What an expert's matrices are called in this family's checkpoints.
std::string_view expert_projection(const ModelConfig& config, std::string_view projection) {
  if (config.architecture != formats::Architecture::Mixtral) return projection;
  if (projection == "gate_proj") return "w1";
  return projection == "up_proj" ? "w3" : "w2";
}

}  // namespace

std::string CheckpointWeights::where() const {
  const auto files = index_.source().files();
  return files.empty() ? "the checkpoint" : files.front().string();
}

Weight CheckpointWeights::get(std::string_view name) {
  const auto found = index_.find(name);
  if (!found) fail(where(), ": has no weight ", name);
  Weight weight;
  weight.name = name;
  weight.dtype = found->dtype;
  weight.shape = found->shape;
  for (const Place& place : found->places)
    bytes_given_ += place.bytes().size();
  if (found->places.size() == 2) {
    return join_kv_b(std::move(weight), *found, index_.source().config());
  }
  const Place& place = found->places.front();
  if (place.layout == Layout::RopePairs) return unpair_rows(std::move(weight), place);
  weight.data = place.bytes().data();
  weight.scale = find_scale(weight, place, index_.source());
  return weight;
}

std::vector<Weight> CheckpointWeights::experts(std::string_view experts,
                                               std::string_view projection) {
  const ModelConfig& config = index_.source().config();
  const std::string_view stored = expert_projection(config, projection);
  std::vector<Weight> weights;
  for (std::int64_t expert = 0; expert < config.moe.num_experts; ++expert) {
    weights.push_back(get(str(experts, '.', expert, '.', stored, ".weight")));
  }
  return weights;
}

void CheckpointWeights::release(const Weight& weight) {
  const auto found = index_.find(weight.name);
  if (!found) return;
  for (const Place& place : found->places) {
    index_.source().release(*place.tensor);
    bytes_done_ += place.bytes().size();
  }
  if (report_) report_(bytes_done_);
}

ops::SharedBytes CheckpointWeights::find_packed(const Weight& weight) {
  return cache_ == nullptr ? ops::SharedBytes{} : cache_->find(weight);
}

void CheckpointWeights::keep_packed(const Weight& weight, const ops::SharedBytes& panels) {
  if (cache_ != nullptr) cache_->keep(weight, panels);
}

void CheckpointWeights::finish_operator() {
  bytes_done_ = bytes_given_;
  if (report_) report_(bytes_done_);
}

void CheckpointWeights::check(const plan::Blueprint& blueprint) const {
  constexpr int kMaxNamed = 8;  // the first ones tell what kind of mistake it is
  std::string problems;
  int num_problems = 0;
  const auto add = [&](const std::string& text) {
    if (++num_problems <= kMaxNamed) problems += (num_problems == 1 ? " " : "; ") + text;
  };
  blueprint.visit([&](const plan::ModuleSpec& module) {
    for (const plan::WeightSpec& weight : module.weights) {
      if (weight.name.ends_with("_scale_inv")) continue;
      const auto found = index_.find(weight.name);
      if (!found) {
        add(str(weight.name, ": missing"));
      } else if (!is_same_shape(found->shape, weight.shape)) {
        add(str(weight.name, ": the file has ", shape_text(found->shape),
                ", the configuration asks for ", shape_text(weight.shape)));
      }
    }
  });
  if (num_problems == 0) return;
  if (num_problems > kMaxNamed) problems += str("; and ", num_problems - kMaxNamed, " more");
  fail(where(), ": the weights do not fit the configuration:", problems);
}

}  // namespace graft::models
