// Tensor names of Hugging Face and GGUF in both directions, from the rows of the model's family.
// One Hugging Face tensor may feed two GGUF tensors (kv_b_proj) and many may feed one (experts), so
// a name maps to several.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/formats/tensor_transform.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

struct MappedName {
  std::string name;  // in the other naming
  formats::TensorTransform transform = formats::TensorTransform::Same;
  std::int64_t expert = -1;    // with TensorTransform::Expert
  std::int64_t num_heads = 0;  // with TensorTransform::RopePairs

  bool operator==(const MappedName&) const = default;
};

// The GGUF tensors made from a Hugging Face tensor. Empty for tensors that GGUF does not store:
// rotary inv_freq buffers, a tied lm_head, scales of FP8 weights, vision towers, layers past the
// last one the config counts. GGUF files may have ffn_gate_inp_shexp as [hidden], Hugging Face has
// [1, hidden].
std::vector<MappedName> to_gguf(const ModelConfig& config, std::string_view hf_name);

// The Hugging Face tensors a GGUF tensor is made from: for a merged expert tensor one per expert,
// then the merged tensor that recent Hugging Face checkpoints may have instead; for attn_k_b and
// attn_v_b the kv_b_proj they are part of; for a multimodal checkpoint every prefix its text model
// is stored under, the classic one first. Empty: Hugging Face has no such tensor (rope_freqs).
std::vector<MappedName> to_huggingface(const ModelConfig& config, std::string_view gguf_name);

// Whether Hugging Face stores this weight as the difference to 1 (TensorTransform::PlusOne).
bool is_plus_one(const Family& family, std::string_view hf_name);

// The names under which checkpoints of the family may store a weight, the usual one first.
std::vector<std::string> stored_names(const Family& family, std::string_view hf_name);

// A tensor that contains the weight as one of several (FusedRow), with the expert it is of.
struct FusedName {
  std::string stored;
  formats::TensorTransform transform;
  std::int64_t expert = -1;
};
std::vector<FusedName> fused_names(const Family& family, std::string_view hf_name);

}  // namespace graft::models
