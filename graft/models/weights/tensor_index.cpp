#include "graft/models/weights/tensor_index.h"

#include <algorithm>

#include "graft/models/families/family.h"
#include "graft/models/families/tensor_names.h"
#include "graft/models/families/vision_names.h"

namespace graft::models {
namespace {

using formats::TensorInfo;
using formats::TensorTransform;

bool is_gguf(const formats::WeightSource& source) {
  return source.format().starts_with("GGUF");
}

bool is_split_kv_b(const std::vector<StoredTensor>& stored) {
  return stored.size() == 2 && stored[0].transform == TensorTransform::KvBKey &&
         stored[1].transform == TensorTransform::KvBValue;
}

// Selects the rows of q, k or v. A tensor with another number of rows is left whole: its shape is
// then not that of the weight.
void select_qkv_rows(const ModelConfig& config, StoredTensor& stored) {
  const std::int64_t q_rows = config.num_attention_heads * config.head_dim;
  const std::int64_t kv_rows = config.num_key_value_heads * config.head_dim;
  if (stored.tensor->shape.empty() || stored.tensor->shape[0] != q_rows + 2 * kv_rows) return;
  const bool is_query = stored.transform == TensorTransform::QkvQuery;
  stored.num_rows = is_query ? q_rows : kv_rows;
  if (!is_query) stored.first_row = q_rows;
  if (stored.transform == TensorTransform::QkvValue) stored.first_row += kv_rows;
}

}  // namespace

formats::KvBShape kv_b_shape(const ModelConfig& config) {
  return {.heads = config.num_attention_heads,
          .key_dim = config.mla.qk_nope_head_dim,
          .value_dim = config.mla.v_head_dim,
          .rank = config.mla.kv_lora_rank};
}

formats::DeltaHeads delta_heads(const ModelConfig& config) {
  return {.num_key_heads = config.delta_net.num_key_heads,
          .num_value_heads = config.delta_net.num_value_heads,
          .key_dim = config.delta_net.key_head_dim,
          .value_dim = config.delta_net.value_head_dim};
}

TensorIndex::TensorIndex(const Checkpoint& checkpoint) : checkpoint_(&checkpoint) {
  if (!is_gguf(checkpoint)) {
    const Family* family = checkpoint.config().family;
    if (family == nullptr || family->module_name == nullptr) return;
    for (const TensorInfo& tensor : checkpoint.tensors())
      renamed_[family->module_name(tensor.name)] = &tensor;
    return;
  }
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    for (const MappedName& mapped : to_huggingface(checkpoint.config(), tensor.name)) {
      gguf_tensors_[mapped.name].push_back(
          {&tensor, mapped.transform, mapped.expert, mapped.num_heads});
    }
  }
}

std::optional<FoundWeight> TensorIndex::find(std::string_view hf_name) const {
  FoundWeight found;
  found.stored = find_stored(hf_name);
  if (found.stored.empty()) return std::nullopt;
  if (is_split_kv_b(found.stored)) {
    // Joining transposes, which needs decoded values.
    const formats::KvBShape shape = kv_b_shape(checkpoint_->config());
    found.dtype = DType::F32;
    found.shape = {shape.rows(), shape.rank};
    return found;
  }
  if (is_expert_layout(found.stored[0].transform)) {
    found.dtype = expert_dtype(found.stored[0].experts());
    found.shape = expert_shape(found.stored[0].experts());
    return found;
  }
  const StoredTensor& first = found.stored[0];
  const bool is_computed =
      first.transform == TensorTransform::PlusOne || first.transform == TensorTransform::NegExp;
  found.dtype = is_computed ? DType::F32 : first.tensor->dtype;
  found.shape = found.stored[0].slice().shape;
  return found;
}

// Of the vision tower or the projector; null: the checkpoint does not have it.
const TensorInfo* TensorIndex::find_vision(std::string_view hf_name) const {
  if (!is_gguf(*checkpoint_)) {
    for (const std::string& name : stored_vision_names(hf_name)) {
      if (const TensorInfo* tensor = checkpoint_->find(name)) return tensor;
    }
    return nullptr;
  }
  const std::optional<VisionConfig>& vision = checkpoint_->config().vision;
  const bool is_fc1 = hf_name.find(".mlp.fc1.") != std::string_view::npos;
  const bool is_fc2 = hf_name.find(".mlp.fc2.") != std::string_view::npos;
  for (const std::string& name : gguf_names_of_vision(hf_name)) {
    const TensorInfo* tensor = checkpoint_->find(name);
    if (tensor == nullptr || tensor->shape.empty()) continue;
    // Older files have the names of the two linear layers of an MLP swapped.
    const bool is_inner = vision && tensor->shape[0] == vision->intermediate_size;
    if ((is_fc1 && is_inner) || (is_fc2 && !is_inner) || (!is_fc1 && !is_fc2)) return tensor;
  }
  return nullptr;
}

std::vector<StoredTensor> TensorIndex::find_stored(std::string_view hf_name) const {
  const ModelConfig& config = checkpoint_->config();
  if (is_vision_weight(hf_name)) {
    const TensorInfo* tensor = find_vision(hf_name);
    return tensor == nullptr ? std::vector<StoredTensor>()
                             : std::vector{StoredTensor{.tensor = tensor}};
  }
  for (const std::string& name : stored_names(*config.family, hf_name)) {
    if (const auto direct = find_direct(name)) return {*direct};
    const auto split = gguf_tensors_.find(name);
    if (split == gguf_tensors_.end()) continue;
    std::vector<StoredTensor> stored = split->second;
    std::ranges::sort(stored, {}, &StoredTensor::transform);  // keys before values
    if (is_split_kv_b(stored)) return stored;
  }
  if (const auto fused = find_fused(hf_name)) return {*fused};
  if (hf_name == "lm_head.weight" && config.tie_word_embeddings) {
    return find_stored("model.embed_tokens.weight");
  }
  return {};
}

// A stored tensor that is the weight, alone or as one expert of a merged tensor.
std::optional<StoredTensor> TensorIndex::find_direct(const std::string& name) const {
  if (!is_gguf(*checkpoint_)) {
    const TensorInfo* tensor = checkpoint_->find(name);
    const auto renamed = renamed_.find(name);
    if (tensor == nullptr && renamed != renamed_.end()) tensor = renamed->second;
    if (tensor == nullptr) return std::nullopt;
    const bool plus_one = is_plus_one(*checkpoint_->config().family, name);
    const bool neg_exp = name.ends_with(".linear_attn.A_log");
    return StoredTensor{.tensor = tensor,
                        .transform = plus_one  ? TensorTransform::PlusOne
                                     : neg_exp ? TensorTransform::NegExp
                                               : TensorTransform::Same};
  }
  const auto found = gguf_tensors_.find(name);
  if (found == gguf_tensors_.end()) return std::nullopt;
  for (const StoredTensor& stored : found->second) {
    const TensorTransform transform = stored.transform;
    if (transform == TensorTransform::Same || transform == TensorTransform::RopePairs) {
      return stored;
    }
    // The operators take these as GGUF files have them.
    if (transform == TensorTransform::NegExp || formats::is_tiled(transform))
      return StoredTensor{.tensor = stored.tensor};
    if (transform == TensorTransform::Expert &&
        formats::has_expert(*stored.tensor, stored.expert)) {
      return stored;
    }
  }
  return std::nullopt;
}

std::optional<StoredTensor> TensorIndex::find_fused(std::string_view hf_name) const {
  for (const FusedName& fused : fused_names(*checkpoint_->config().family, hf_name)) {
    auto stored = find_direct(fused.stored);
    if (!stored) continue;
    if (fused.expert >= 0 && !formats::has_expert(*stored->tensor, fused.expert)) continue;
    stored->transform = fused.transform;
    stored->expert = fused.expert;
    if (formats::is_part_of_qkv(fused.transform)) select_qkv_rows(checkpoint_->config(), *stored);
    if (formats::is_split_by_key_head(fused.transform)) {
      const formats::DeltaHeads heads = delta_heads(checkpoint_->config());
      // A tensor with another number of rows is left whole: its shape is then not that of the
      // weight.
      if (stored->tensor->shape.empty() ||
          stored->tensor->shape[0] != heads.fused_rows(fused.transform)) {
        stored->transform = TensorTransform::Same;
      } else {
        stored->num_rows = heads.num_rows(fused.transform);
      }
    }
    if (formats::is_mxfp4(fused.transform))
      stored->scales = checkpoint_->find(scales_name(fused.stored));
    return stored;
  }
  return std::nullopt;
}

}  // namespace graft::models
