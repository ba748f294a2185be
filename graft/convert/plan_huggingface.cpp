#include "graft/convert/plan_huggingface.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/formats/gguf/gguf_config.h"
#include "graft/formats/gguf/gguf_tokenizer.h"

namespace graft::convert {
namespace {

using formats::Layout;
using formats::ModelConfig;
using formats::NameSlot;
using formats::TensorInfo;
using formats::WeightSource;

// Sort key of a tensor in the file: token_embd, the layers in order, the rest.
std::pair<std::int64_t, std::string> file_position(const std::string& name) {
  if (name.starts_with("token_embd")) return {-1, name};
  if (name.starts_with("blk.")) return {std::stoll(name.substr(4)), name};
  return {INT64_MAX, name};
}

using RecipeMap = std::map<std::pair<std::int64_t, std::string>, Recipe>;

// The scale of an FP8 weight is a tensor with the weight's name and one of two suffixes.
const TensorInfo* scale_of(const WeightSource& source, const std::string& weight) {
  if (const TensorInfo* scale = source.find(weight + "_scale_inv")) return scale;
  return source.find(weight + "_scale");
}

bool is_scale(const WeightSource& source, const std::string& name) {
  for (const std::string_view suffix : {"_scale_inv", "_scale"}) {
    if (name.ends_with(suffix) &&
        source.find(name.substr(0, name.size() - suffix.size())) != nullptr)
      return true;
  }
  // Activation scales are not used: activations are not FP8 here.
  return name.ends_with(".input_scale") || name.ends_with(".k_scale") || name.ends_with(".v_scale");
}

std::vector<std::int64_t> gguf_shape(const ModelConfig& config,
                                     const NameSlot& slot,
                                     const TensorInfo& tensor) {
  std::vector<std::int64_t> shape = tensor.shape;
  const formats::MlaConfig& mla = config.mla;
  switch (slot.layout) {
    case Layout::Expert:
      return {config.moe.num_experts, tensor.num_rows(), tensor.row_elems()};
    case Layout::ExpertsGateHalf:
    case Layout::ExpertsUpHalf:
      GRAFT_CHECK(shape.size() == 3, tensor.name);
      shape[1] /= 2;
      return shape;
    case Layout::KvBKey:
      return {config.num_attention_heads, mla.kv_lora_rank, mla.qk_nope_head_dim};
    case Layout::KvBValue:
      return {config.num_attention_heads, mla.v_head_dim, mla.kv_lora_rank};
    case Layout::RopePairs:
    case Layout::Same:
      break;
  }
  // A shared expert's gate is [1, n] in the checkpoint and [n] in GGUF.
  if (shape.size() == 2 && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

void add_slot(RecipeMap& recipes,
              const WeightSource& source,
              const NameSlot& slot,
              const TensorInfo& tensor) {
  const ModelConfig& config = source.config();
  Recipe& recipe = recipes[file_position(slot.name)];
  const std::vector<std::int64_t> shape = gguf_shape(config, slot, tensor);
  if (recipe.name.empty()) {
    recipe.name = slot.name;
    recipe.shape = shape;
    recipe.layout = slot.layout;
    recipe.num_heads =
        slot.layout == Layout::RopePairs ? slot.num_heads : config.num_attention_heads;
    recipe.sources.resize(slot.layout == Layout::Expert ? static_cast<std::size_t>(shape[0]) : 1);
  }
  if (shape != recipe.shape)
    fail(tensor.name, ": the shape differs from the other experts of ", recipe.name);
  const auto idx = static_cast<std::size_t>(slot.layout == Layout::Expert ? slot.expert : 0);
  if (idx >= recipe.sources.size()) {
    fail(tensor.name, ": expert ", slot.expert, ", but the model has ", config.moe.num_experts,
         " experts");
  }
  if (recipe.sources[idx].weight != nullptr) {
    fail(tensor.name, ": maps to ", recipe.name, ", and so does ",
         recipe.sources[idx].weight->name);
  }
  recipe.sources[idx] = {.weight = &tensor, .scale = scale_of(source, tensor.name)};
}

// kv_b_proj must have the configured shape, because its rows are split by head.
void check_kv_b(const ModelConfig& config, const Recipe& recipe) {
  if (recipe.layout != Layout::KvBKey && recipe.layout != Layout::KvBValue) return;
  const TensorInfo& weight = *recipe.sources[0].weight;
  const std::int64_t rows =
      config.num_attention_heads * (config.mla.qk_nope_head_dim + config.mla.v_head_dim);
  if (weight.num_rows() != rows || weight.row_elems() != config.mla.kv_lora_rank) {
    fail(weight.name, ": the shape is ", weight.num_rows(), " x ", weight.row_elems(),
         ", the configuration requires ", rows, " x ", config.mla.kv_lora_rank);
  }
}

void check_complete(const ModelConfig& config, const Recipe& recipe) {
  for (std::size_t i = 0; i < recipe.sources.size(); ++i) {
    if (recipe.sources[i].weight == nullptr)
      fail(recipe.name, ": expert ", i, " of ", recipe.sources.size(), " is missing");
  }
  if (recipe.layout == Layout::RopePairs) {
    const std::int64_t rows = recipe.shape[0];
    if (recipe.num_heads < 1 || rows % (2 * recipe.num_heads) != 0) {
      fail(recipe.name, ": ", rows, " rows do not divide into ", recipe.num_heads,
           " heads with an even head_dim");
    }
  }
  check_kv_b(config, recipe);
}

// Tensors that GGUF does not store: scales folded into weights, tied heads, the vision tower.
bool may_be_dropped(const WeightSource& source, const std::string& name, Job& job) {
  if (is_scale(source, name) || name.ends_with("rotary_emb.inv_freq")) return true;
  if (name.ends_with("lm_head.weight") && source.config().tie_word_embeddings) return true;
  if (source.config().vision && (name.find("vision_tower.") != std::string::npos ||
                                 name.find("multi_modal_projector.") != std::string::npos)) {
    constexpr std::string_view kNote =
        "the vision tower and its projector are not converted: the GGUF file is text-only";
    if (std::ranges::find(job.notes, kNote) == job.notes.end()) job.notes.emplace_back(kNote);
    return true;
  }
  return false;
}

}  // namespace

void plan_from_huggingface(Job& job) {
  const WeightSource& source = *job.source;
  const ModelConfig& config = source.config();
  RecipeMap recipes;
  for (const TensorInfo& tensor : source.tensors()) {
    const std::vector<NameSlot> slots = formats::to_gguf(config, tensor.name);
    if (slots.empty() && !may_be_dropped(source, tensor.name, job))
      fail(source.files()[0].string(), ": tensor ", tensor.name, " has no GGUF name");
    for (const NameSlot& slot : slots)
      add_slot(recipes, source, slot, tensor);
  }
  for (auto& [position, recipe] : recipes) {
    check_complete(config, recipe);
    job.recipes.push_back(std::move(recipe));
  }
  if (const std::vector<float> freqs = formats::rope_freqs(config); !freqs.empty()) {
    job.recipes.push_back({.name = "rope_freqs.weight",
                           .shape = {static_cast<std::int64_t>(freqs.size())},
                           .dtype = DType::F32,
                           .layout = Layout::Same,
                           .num_heads = 0,
                           .sources = {},
                           .values = freqs});
  }
  formats::write_gguf_config(config, job.metadata);
  formats::write_gguf_tokenizer(source.tokenizer(), job.metadata);
}

}  // namespace graft::convert
