#include "graft/formats/names.h"

#include <array>
#include <optional>

#include "graft/base/text/str.h"

namespace graft::formats {
namespace {

using FamilySet = std::uint32_t;

constexpr FamilySet set_of(Architecture architecture) {
  return FamilySet{1} << static_cast<unsigned>(architecture);
}

constexpr FamilySet kAll = ~FamilySet{0};
constexpr FamilySet kMixtral = set_of(Architecture::Mixtral);
constexpr FamilySet kQwen2Moe = set_of(Architecture::Qwen2Moe);
constexpr FamilySet kGlm = set_of(Architecture::Glm4Moe);
constexpr FamilySet kDeepseek = set_of(Architecture::DeepseekV2) | set_of(Architecture::DeepseekV3);
constexpr FamilySet kShared = kDeepseek | kGlm;
constexpr FamilySet kNextn = kDeepseek | kGlm;
// The families whose q and k rows llama.cpp stores in another order than Hugging Face.
constexpr FamilySet kPaired = set_of(Architecture::Llama) | set_of(Architecture::Mistral) |
                              kMixtral | set_of(Architecture::Llava);

// Both: the two names map to each other. Read: only old or unusual GGUF files have the name, it is
// understood but never written.
enum class Use : std::uint8_t { Both, Read };

struct Row {
  std::string_view hf;
  std::string_view gguf;
  FamilySet families = kAll;
  Layout layout = Layout::Same;
  Use use = Use::Both;
};

constexpr std::array kWholeModel = {
    Row{"model.embed_tokens.weight", "token_embd.weight"},
    Row{"model.norm.weight", "output_norm.weight"},
    Row{"lm_head.weight", "output.weight"},
};

// What follows "model.layers.<layer>." and "blk.<layer>."; '@' is the number of an expert.
// clang-format off
constexpr std::array kPerLayer = {
    Row{"input_layernorm.weight",                 "attn_norm.weight"},
    Row{"post_attention_layernorm.weight",        "ffn_norm.weight",             kAll & ~kGlm},
    Row{"post_attention_layernorm.weight",        "post_attention_norm.weight",  kGlm},

    Row{"self_attn.q_proj.weight",                "attn_q.weight",               kPaired, Layout::RopePairs},
    Row{"self_attn.q_proj.bias",                  "attn_q.bias",                 kPaired, Layout::RopePairs},
    Row{"self_attn.k_proj.weight",                "attn_k.weight",               kPaired, Layout::RopePairs},
    Row{"self_attn.k_proj.bias",                  "attn_k.bias",                 kPaired, Layout::RopePairs},
    Row{"self_attn.q_proj.weight",                "attn_q.weight",               kAll & ~kPaired},
    Row{"self_attn.q_proj.bias",                  "attn_q.bias",                 kAll & ~kPaired},
    Row{"self_attn.k_proj.weight",                "attn_k.weight",               kAll & ~kPaired},
    Row{"self_attn.k_proj.bias",                  "attn_k.bias",                 kAll & ~kPaired},
    Row{"self_attn.v_proj.weight",                "attn_v.weight"},
    Row{"self_attn.v_proj.bias",                  "attn_v.bias"},
    Row{"self_attn.o_proj.weight",                "attn_output.weight"},
    Row{"self_attn.o_proj.bias",                  "attn_output.bias"},
    Row{"self_attn.q_norm.weight",                "attn_q_norm.weight"},
    Row{"self_attn.k_norm.weight",                "attn_k_norm.weight"},

    Row{"self_attn.q_a_proj.weight",              "attn_q_a.weight",             kDeepseek},
    Row{"self_attn.q_a_proj.bias",                "attn_q_a.bias",               kDeepseek},
    Row{"self_attn.q_a_layernorm.weight",         "attn_q_a_norm.weight",        kDeepseek},
    Row{"self_attn.q_b_proj.weight",              "attn_q_b.weight",             kDeepseek},
    Row{"self_attn.kv_a_proj_with_mqa.weight",    "attn_kv_a_mqa.weight",        kDeepseek},
    Row{"self_attn.kv_a_proj_with_mqa.bias",      "attn_kv_a_mqa.bias",          kDeepseek},
    Row{"self_attn.kv_a_layernorm.weight",        "attn_kv_a_norm.weight",       kDeepseek},
    Row{"self_attn.kv_b_proj.weight",             "attn_k_b.weight",             kDeepseek, Layout::KvBKey},
    Row{"self_attn.kv_b_proj.weight",             "attn_v_b.weight",             kDeepseek, Layout::KvBValue},
    Row{"self_attn.kv_b_proj.weight",             "attn_kv_b.weight",            kDeepseek, Layout::Same, Use::Read},

    Row{"mlp.gate_proj.weight",                   "ffn_gate.weight"},
    Row{"mlp.gate_proj.bias",                     "ffn_gate.bias"},
    Row{"mlp.up_proj.weight",                     "ffn_up.weight"},
    Row{"mlp.up_proj.bias",                       "ffn_up.bias"},
    Row{"mlp.down_proj.weight",                   "ffn_down.weight"},
    Row{"mlp.down_proj.bias",                     "ffn_down.bias"},

    Row{"block_sparse_moe.gate.weight",           "ffn_gate_inp.weight",         kMixtral},
    Row{"block_sparse_moe.experts.@.w1.weight",   "ffn_gate_exps.weight",        kMixtral, Layout::Expert},
    Row{"block_sparse_moe.experts.@.w3.weight",   "ffn_up_exps.weight",          kMixtral, Layout::Expert},
    Row{"block_sparse_moe.experts.@.w2.weight",   "ffn_down_exps.weight",        kMixtral, Layout::Expert},
    Row{"block_sparse_moe.experts.@.w1.weight",   "ffn_gate.@.weight",           kMixtral, Layout::Same, Use::Read},
    Row{"block_sparse_moe.experts.@.w3.weight",   "ffn_up.@.weight",             kMixtral, Layout::Same, Use::Read},
    Row{"block_sparse_moe.experts.@.w2.weight",   "ffn_down.@.weight",           kMixtral, Layout::Same, Use::Read},
    Row{"mlp.gate.weight",                        "ffn_gate_inp.weight"},
    Row{"mlp.gate.e_score_correction_bias",       "exp_probs_b.bias",            kShared},
    Row{"mlp.experts.@.gate_proj.weight",         "ffn_gate_exps.weight",        kAll & ~kMixtral, Layout::Expert},
    Row{"mlp.experts.@.up_proj.weight",           "ffn_up_exps.weight",          kAll & ~kMixtral, Layout::Expert},
    Row{"mlp.experts.@.down_proj.weight",         "ffn_down_exps.weight",        kAll & ~kMixtral, Layout::Expert},
    Row{"mlp.experts.gate_up_proj",               "ffn_gate_exps.weight",        kAll, Layout::ExpertsGateHalf},
    Row{"mlp.experts.gate_up_proj",               "ffn_up_exps.weight",          kAll, Layout::ExpertsUpHalf},
    Row{"mlp.experts.gate_up_proj",               "ffn_gate_up_exps.weight",     kAll, Layout::Same, Use::Read},
    Row{"mlp.experts.down_proj",                  "ffn_down_exps.weight"},

    Row{"mlp.shared_experts.gate_proj.weight",    "ffn_gate_shexp.weight",       kShared},
    Row{"mlp.shared_experts.up_proj.weight",      "ffn_up_shexp.weight",         kShared},
    Row{"mlp.shared_experts.down_proj.weight",    "ffn_down_shexp.weight",       kShared},
    Row{"mlp.shared_expert.gate_proj.weight",     "ffn_gate_shexp.weight",       kQwen2Moe},
    Row{"mlp.shared_expert.up_proj.weight",       "ffn_up_shexp.weight",         kQwen2Moe},
    Row{"mlp.shared_expert.down_proj.weight",     "ffn_down_shexp.weight",       kQwen2Moe},
    Row{"mlp.shared_expert_gate.weight",          "ffn_gate_inp_shexp.weight",   kQwen2Moe},

    Row{"eh_proj.weight",                         "nextn.eh_proj.weight",          kNextn},
    Row{"enorm.weight",                           "nextn.enorm.weight",            kNextn},
    Row{"hnorm.weight",                           "nextn.hnorm.weight",            kNextn},
    Row{"embed_tokens.weight",                    "nextn.embed_tokens.weight",     kNextn},
    Row{"shared_head.head.weight",                "nextn.shared_head_head.weight", kNextn},
    Row{"shared_head.norm.weight",                "nextn.shared_head_norm.weight", kNextn},
};
// clang-format on

// A number as names have it: no sign, no leading zero. Takes it off the front of `text`.
std::optional<std::int64_t> take_number(std::string_view& text) {
  constexpr std::size_t kMaxDigits = 9;
  std::size_t digits = 0;
  std::int64_t number = 0;
  while (digits < text.size() && digits < kMaxDigits && text[digits] >= '0' &&
         text[digits] <= '9') {
    number = number * 10 + (text[digits] - '0');
    ++digits;
  }
  if (digits == 0 || (digits > 1 && text[0] == '0')) return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Whether `name` is `pattern`, with a number where the pattern has '@' (-1 when it has none).
std::optional<std::int64_t> match(std::string_view pattern, std::string_view name) {
  const std::size_t hole = pattern.find('@');
  if (hole == std::string_view::npos) {
    return pattern == name ? std::optional<std::int64_t>(-1) : std::nullopt;
  }
  if (!take_prefix(name, pattern.substr(0, hole))) return std::nullopt;
  const auto number = take_number(name);
  return number && name == pattern.substr(hole + 1) ? number : std::nullopt;
}

std::string fill(std::string_view pattern, std::int64_t expert) {
  const std::size_t hole = pattern.find('@');
  if (hole == std::string_view::npos) return std::string(pattern);
  return str(pattern.substr(0, hole), expert, pattern.substr(hole + 1));
}

// The layer's number and what follows it. Layers that the model does not have do not match.
struct LayerName {
  std::int64_t layer;
  std::string_view rest;
};

std::optional<LayerName> split_layer(const ModelConfig& config,
                                     std::string_view name,
                                     std::string_view prefix) {
  if (!take_prefix(name, prefix)) return std::nullopt;
  const auto layer = take_number(name);
  if (!layer || !take_prefix(name, ".")) return std::nullopt;
  if (*layer >= config.num_hidden_layers + config.num_nextn_predict_layers) return std::nullopt;
  return LayerName{*layer, name};
}

bool is_of(const Row& row, const ModelConfig& config) {
  return (row.families & set_of(config.architecture)) != 0;
}

// -1 stands for a tensor that is not of one expert.
bool has_expert(const ModelConfig& config, std::int64_t expert) {
  return expert < 0 || expert < config.moe.num_experts;
}

std::int64_t heads_of(const Row& row, const ModelConfig& config) {
  if (row.layout != Layout::RopePairs) return 0;
  return row.hf.starts_with("self_attn.k_proj") ? config.num_key_value_heads
                                                : config.num_attention_heads;
}

constexpr std::string_view kClassicText = "language_model.";
constexpr std::string_view kNewerText = "model.language_model.";

// LLaVA's text model under the names of a model of its own; other families' names as they are.
std::string without_text_prefix(const ModelConfig& config, std::string_view name) {
  if (config.architecture != Architecture::Llava) return std::string(name);
  if (take_prefix(name, kClassicText)) return std::string(name);
  if (take_prefix(name, kNewerText)) return str("model.", name);
  // The newer form keeps the head, and nothing else, at the top.
  return name == "lm_head.weight" ? std::string(name) : std::string();
}

void add_with_text_prefix(const ModelConfig& config, NameSlot slot, std::vector<NameSlot>& out) {
  if (config.architecture != Architecture::Llava) {
    out.push_back(std::move(slot));
    return;
  }
  std::string_view newer = slot.name;
  NameSlot second = slot;
  second.name = take_prefix(newer, "model.") ? str(kNewerText, newer) : slot.name;
  slot.name = str(kClassicText, slot.name);
  out.push_back(std::move(slot));
  out.push_back(std::move(second));
}

}  // namespace

std::vector<NameSlot> to_gguf(const ModelConfig& config, std::string_view hf_name) {
  std::vector<NameSlot> slots;
  const std::string name = without_text_prefix(config, hf_name);
  if (name == "lm_head.weight" && config.tie_word_embeddings) return slots;
  for (const Row& row : kWholeModel) {
    if (row.hf == name) slots.push_back({.name = std::string(row.gguf)});
  }
  const auto layer = split_layer(config, name, "model.layers.");
  if (!layer) return slots;
  for (const Row& row : kPerLayer) {
    if (row.use != Use::Both || !is_of(row, config)) continue;
    const auto expert = match(row.hf, layer->rest);
    if (!expert || !has_expert(config, *expert)) continue;
    slots.push_back({.name = str("blk.", layer->layer, '.', row.gguf),
                     .layout = row.layout,
                     .expert = row.layout == Layout::Expert ? *expert : -1,
                     .num_heads = heads_of(row, config)});
  }
  return slots;
}

std::vector<NameSlot> to_huggingface(const ModelConfig& config, std::string_view gguf_name) {
  std::vector<NameSlot> slots;
  for (const Row& row : kWholeModel) {
    if (row.gguf == gguf_name) {
      add_with_text_prefix(config, {.name = std::string(row.hf)}, slots);
    }
  }
  const auto layer = split_layer(config, gguf_name, "blk.");
  if (!layer) return slots;
  const std::string prefix = str("model.layers.", layer->layer, '.');
  for (const Row& row : kPerLayer) {
    if (!is_of(row, config)) continue;
    const auto expert = match(row.gguf, layer->rest);
    if (!expert || !has_expert(config, *expert)) continue;
    const std::int64_t first = row.layout == Layout::Expert ? 0 : *expert;
    const std::int64_t last = row.layout == Layout::Expert ? config.moe.num_experts - 1 : *expert;
    for (std::int64_t i = first; i <= last; ++i) {
      add_with_text_prefix(config,
                           {.name = prefix + fill(row.hf, i),
                            .layout = row.layout,
                            .expert = row.layout == Layout::Expert ? i : -1,
                            .num_heads = heads_of(row, config)},
                           slots);
    }
  }
  return slots;
}

}  // namespace graft::formats
