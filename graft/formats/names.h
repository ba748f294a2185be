// The table of weight names: Hugging Face's and GGUF's, in both directions, and what must happen to
// the numbers on the way. One Hugging Face tensor may feed two GGUF tensors (DeepSeek's kv_b_proj)
// and many may feed one (experts), so a name maps to slots.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/formats/model_config.h"

namespace graft::formats {

enum class Layout : std::uint8_t {
  Same,
  // Llama, Mistral, Mixtral q_proj/k_proj: the rows of each head go from halves (i, i + d/2), as
  // Hugging Face rotates them, to neighbours (2i, 2i + 1), as llama.cpp does.
  RopePairs,
  // The Hugging Face tensor is one expert, GGUF has all experts in one tensor [experts, rows,
  // cols].
  Expert,
  // Hugging Face has gate and up of all experts in one tensor [experts, 2 * rows, cols]; GGUF has
  // two. Gate is the first half of the rows of each expert, up the second.
  ExpertsGateHalf,
  ExpertsUpHalf,
  // attn_k_b [heads, kv_lora_rank, qk_nope_head_dim]: the key rows of each head of kv_b_proj
  // [heads * (qk_nope_head_dim + v_head_dim), kv_lora_rank], transposed.
  KvBKey,
  // attn_v_b [heads, v_head_dim, kv_lora_rank]: the value rows of each head of kv_b_proj.
  KvBValue,
};

struct NameSlot {
  std::string name;  // in the other naming
  Layout layout = Layout::Same;
  std::int64_t expert = -1;    // with Layout::Expert
  std::int64_t num_heads = 0;  // with Layout::RopePairs

  bool operator==(const NameSlot&) const = default;
};

// Where the Hugging Face tensor goes. Empty: GGUF has no place for it (rotary inv_freq buffers, a
// tied lm_head, scales of FP8 weights, which are folded in, vision towers, layers past the last
// that the config counts). GGUF files may have ffn_gate_inp_shexp as [hidden], Hugging Face has [1,
// hidden].
std::vector<NameSlot> to_gguf(const ModelConfig& config, std::string_view hf_name);

// Where the GGUF tensor comes from: for a merged expert tensor one slot per expert, then the merged
// tensor that newer Hugging Face checkpoints may have instead; for attn_k_b and attn_v_b the
// kv_b_proj they are part of; for LLaVA both prefixes that its text model is stored under, the
// classic one first. Empty: Hugging Face has no such tensor (rope_freqs).
std::vector<NameSlot> to_huggingface(const ModelConfig& config, std::string_view gguf_name);

}  // namespace graft::formats
