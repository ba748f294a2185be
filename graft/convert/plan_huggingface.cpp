#include "graft/convert/plan_huggingface.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graft/base/error.h"
#include "graft/formats/gguf/gguf_tokenizer.h"
#include "graft/formats/tensor_spec.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/families/family.h"
#include "graft/models/families/tensor_names.h"
#include "graft/models/weights/expert_layout.h"
#include "graft/models/weights/tensor_index.h"

namespace graft::convert {
namespace {

using formats::TensorInfo;
using formats::TensorTransform;
using models::Checkpoint;
using models::MappedName;
using models::ModelConfig;

constexpr std::string_view kCodes = "_blocks";
constexpr std::string_view kCodeScales = "_scales";

// Sort key of a tensor in the file: token_embd, the layers in order, the rest.
std::pair<std::int64_t, std::string> file_position(const std::string& name) {
  if (name.starts_with("token_embd")) return {-1, name};
  if (name.starts_with("blk.")) return {std::stoll(name.substr(4)), name};
  return {INT64_MAX, name};
}

using RecipeMap = std::map<std::pair<std::int64_t, std::string>, Recipe>;

// The scale of an FP8 weight is a tensor with the weight's name and one of two suffixes; that of
// MXFP4 codes has another suffix in place of theirs.
const TensorInfo* scale_of(const Checkpoint& source, const std::string& weight) {
  if (weight.ends_with(kCodes)) return source.find(models::scales_name(weight));
  if (const TensorInfo* scale = source.find(weight + "_scale_inv")) return scale;
  return source.find(weight + "_scale");
}

bool is_scale(const Checkpoint& source, const std::string& name) {
  for (const std::string_view suffix : {"_scale_inv", "_scale"}) {
    if (name.ends_with(suffix) &&
        source.find(name.substr(0, name.size() - suffix.size())) != nullptr)
      return true;
  }
  if (name.ends_with(kCodeScales)) {
    const std::string codes = str(name.substr(0, name.size() - kCodeScales.size()), kCodes);
    if (source.find(codes) != nullptr) return true;
  }
  // Activation scales are not used: activations are not FP8 here.
  return name.ends_with(".input_scale") || name.ends_with(".k_scale") || name.ends_with(".v_scale");
}

// Tensors whose rows or columns are reordered by head must have as many as the configuration says.
void check_tiled(const MappedName& mapped,
                 const ModelConfig& config,
                 const TensorInfo& tensor,
                 const std::vector<std::int64_t>& shape) {
  if (!formats::is_tiled(mapped.transform)) return;
  const bool is_columns = mapped.transform == TensorTransform::TiledColumns;
  const std::int64_t size = shape.empty() ? 1 : is_columns ? shape.back() : shape.front();
  const std::int64_t expected = models::delta_heads(config).num_rows(mapped.transform);
  if (size != expected) {
    fail(tensor.name, ": shape ", formats::shape_text(shape), ", expected ", expected,
         is_columns ? " columns" : " rows", " from the configuration");
  }
}

std::vector<std::int64_t> gguf_shape(const ModelConfig& config,
                                     const MappedName& mapped,
                                     const RecipeSource& source) {
  const TensorInfo& tensor = *source.weight;
  std::vector<std::int64_t> shape = tensor.shape;
  if (models::is_expert_layout(mapped.transform)) {
    if (tensor.dtype == DType::F8_E4M3 && source.scale == nullptr)
      fail(tensor.name, "_scale is missing");
    shape = models::expert_shape(
        {.tensor = &tensor, .scales = source.scale, .transform = mapped.transform});
    shape.insert(shape.begin(), tensor.shape[0]);
    return shape;
  }
  const formats::KvBShape kv_b = models::kv_b_shape(config);
  switch (mapped.transform) {
    case TensorTransform::Expert:
      if (tensor.shape.size() == 1) return {config.moe.num_experts, tensor.row_elems()};
      return {config.moe.num_experts, tensor.num_rows(), tensor.row_elems()};
    case TensorTransform::FirstHalf:
    case TensorTransform::SecondHalf:
      if (shape.size() < 2 || shape[shape.size() - 2] % 2 != 0) {
        fail(tensor.name, ": shape ", formats::shape_text(shape),
             ": the rows cannot be split into two halves");
      }
      shape[shape.size() - 2] /= 2;
      return shape;
    case TensorTransform::KvBKey:
      return {kv_b.heads, kv_b.rank, kv_b.key_dim};
    case TensorTransform::KvBValue:
      return {kv_b.heads, kv_b.value_dim, kv_b.rank};
    default:
      break;
  }
  if (formats::is_split_by_key_head(mapped.transform)) {
    const formats::DeltaHeads heads = models::delta_heads(config);
    if (shape.size() != 2 || shape[0] != heads.fused_rows(mapped.transform)) {
      fail(tensor.name, ": shape ", formats::shape_text(shape), ", expected ",
           heads.fused_rows(mapped.transform), " rows from the configuration");
    }
    return {heads.num_rows(mapped.transform), shape[1]};
  }
  // The kernel of a convolution is [n, 1, m] in the checkpoint and [n, m] in GGUF.
  if (shape.size() == 3 && shape[1] == 1) shape.erase(shape.begin() + 1);
  check_tiled(mapped, config, tensor, shape);
  // A shared expert's gate is [1, n] in the checkpoint and [n] in GGUF.
  if (shape.size() == 2 && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

void add_source(RecipeMap& recipes,
                const Checkpoint& source,
                const MappedName& mapped,
                const TensorInfo& tensor) {
  const ModelConfig& config = source.config();
  Recipe& recipe = recipes[file_position(mapped.name)];
  const RecipeSource from = {.weight = &tensor, .scale = scale_of(source, tensor.name)};
  const std::vector<std::int64_t> shape = gguf_shape(config, mapped, from);
  const bool is_expert = mapped.transform == TensorTransform::Expert;
  if (recipe.name.empty()) {
    if (is_id_type(tensor.dtype)) recipe.dtype = DType::I32;
    recipe.name = mapped.name;
    recipe.shape = shape;
    recipe.transform = mapped.transform;
    recipe.num_heads = mapped.num_heads;
    recipe.kv_b = models::kv_b_shape(config);
    recipe.heads = models::delta_heads(config);
    recipe.sources.resize(is_expert ? static_cast<std::size_t>(shape[0]) : 1);
  }
  if (shape != recipe.shape) {
    fail(tensor.name, ": shape ", formats::shape_text(shape), ", expected ",
         formats::shape_text(recipe.shape), " as the other sources of ", recipe.name);
  }
  const auto idx = static_cast<std::size_t>(is_expert ? mapped.expert : 0);
  if (idx >= recipe.sources.size()) {
    fail(tensor.name, ": expert ", mapped.expert, " is out of range: the model has ",
         config.moe.num_experts, " experts");
  }
  if (recipe.sources[idx].weight != nullptr) {
    fail(tensor.name, ": maps to ", recipe.name, ", which is already made from ",
         recipe.sources[idx].weight->name);
  }
  recipe.sources[idx] = from;
}

// kv_b_proj must have the configured shape before it is split into heads.
void check_kv_b(const Recipe& recipe) {
  if (recipe.transform != TensorTransform::KvBKey &&
      recipe.transform != TensorTransform::KvBValue) {
    return;
  }
  const TensorInfo& weight = *recipe.sources[0].weight;
  if (weight.num_rows() != recipe.kv_b.rows() || weight.row_elems() != recipe.kv_b.rank) {
    fail(weight.name, ": shape is [", weight.num_rows(), ", ", weight.row_elems(), "], expected [",
         recipe.kv_b.rows(), ", ", recipe.kv_b.rank, "] from the configuration");
  }
}

void check_complete(const Recipe& recipe) {
  for (std::size_t i = 0; i < recipe.sources.size(); ++i) {
    if (recipe.sources[i].weight == nullptr)
      fail(recipe.name, ": expert ", i, " of ", recipe.sources.size(), " is missing");
  }
  if (recipe.transform == TensorTransform::RopePairs) {
    const std::int64_t rows = recipe.shape[0];
    if (recipe.num_heads < 1 || rows % (2 * recipe.num_heads) != 0) {
      fail(recipe.name, ": ", rows, " rows do not divide into ", recipe.num_heads,
           " heads with an even head_dim");
    }
  }
  check_kv_b(recipe);
}

// Tensors that GGUF does not store: scales folded into weights, tied heads, the vision tower,
// layers that predict further tokens.
bool may_be_dropped(const Checkpoint& source, const std::string& name, Job& job) {
  if (is_scale(source, name) || name.ends_with("rotary_emb.inv_freq")) return true;
  if (name.ends_with("lm_head.weight") && source.config().tie_word_embeddings) return true;
  if (name.starts_with("mtp.")) {
    constexpr std::string_view kNote =
        "the layers that predict further tokens (mtp) are not converted";
    if (std::ranges::find(job.notes, kNote) == job.notes.end()) job.notes.emplace_back(kNote);
    return true;
  }
  const bool is_multimodal = !source.config().family->text_prefixes[0].stored.empty();
  if (is_multimodal &&
      (name.find("vision_tower.") != std::string::npos || name.starts_with("model.visual.") ||
       name.starts_with("visual.") || name.find("multi_modal_projector.") != std::string::npos ||
       name.ends_with("image_newline"))) {
    constexpr std::string_view kNote =
        "the vision tower and its projector are not in this GGUF file: it has the text model";
    if (std::ranges::find(job.notes, kNote) == job.notes.end()) job.notes.emplace_back(kNote);
    return true;
  }
  return false;
}

}  // namespace

void plan_from_huggingface(Job& job) {
  const Checkpoint& source = *job.source;
  const ModelConfig& config = source.config();
  if (config.family == nullptr) fail(source.path().string(), ": no config.json beside it");
  RecipeMap recipes;
  for (const TensorInfo& tensor : source.tensors()) {
    const std::vector<MappedName> names = models::to_gguf(config, tensor.name);
    if (names.empty() && !may_be_dropped(source, tensor.name, job))
      fail(source.files()[0].string(), ": tensor ", tensor.name, " has no GGUF name");
    for (const MappedName& mapped : names)
      add_source(recipes, source, mapped, tensor);
  }
  for (auto& [position, recipe] : recipes) {
    check_complete(recipe);
    job.recipes.push_back(std::move(recipe));
  }
  for (models::RopeTensor& tensor : models::rope_tensors(config)) {
    job.recipes.push_back({.name = std::move(tensor.name),
                           .shape = {static_cast<std::int64_t>(tensor.values.size())},
                           .dtype = DType::F32,
                           .sources = {},
                           .values = std::move(tensor.values)});
  }
  models::write_gguf_config(config, job.metadata);
  formats::write_gguf_tokenizer(source.tokenizer(), job.metadata);
}

}  // namespace graft::convert
