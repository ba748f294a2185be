#include "graft/formats/gguf/gguf_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "graft/base/error.h"
#include "graft/formats/gguf/gguf_keys.h"

namespace graft::formats {
namespace {

// Files store 1e-06 as the nearest f32. People and config.json mean the decimal number, so take the
// shortest one that is that f32.
double decimal(double value) {
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(rounded) || static_cast<double>(rounded) != value) return value;
  std::array<char, 32> text{};
  char* const end = std::to_chars(text.data(), text.data() + text.size(), rounded).ptr;
  double out = value;
  std::from_chars(text.data(), end, out);
  return out;
}

class Reader {
 public:
  Reader(const GgufMetadata& metadata, std::span<const TensorInfo> tensors)
      : metadata_(metadata), tensors_(tensors) {
    for (const TensorInfo& tensor : tensors)
      names_.insert(tensor.name);
  }

  ModelConfig read();

 private:
  std::string key(std::string_view suffix) const { return str(prefix_, '.', suffix); }
  bool has_tensor(std::string_view name) const { return names_.contains(name); }

  // A few converters write one number per layer; where a family has one for all they must agree.
  std::optional<std::int64_t> whole(const std::string& name) const;
  std::int64_t required(std::string_view suffix) const;
  std::int64_t integer(std::string_view suffix, std::int64_t fallback) const {
    return whole(key(suffix)).value_or(fallback);
  }
  double number(std::string_view suffix, double fallback) const {
    return decimal(metadata_.number(key(suffix)).value_or(fallback));
  }
  std::int64_t own_integer(std::string_view name, std::int64_t fallback) const {
    return metadata_.integer(name).value_or(fallback);
  }

  Architecture find_architecture() const;
  std::int64_t find_vocab_size() const;
  void read_sizes(ModelConfig& config) const;
  void read_attention(ModelConfig& config) const;
  void read_mla(ModelConfig& config) const;
  void read_rope(ModelConfig& config) const;
  void read_yarn(ModelConfig& config) const;
  void read_own_rope(RopeConfig& rope) const;
  void read_moe(ModelConfig& config) const;
  void read_routing(ModelConfig& config) const;
  void read_tokens(ModelConfig& config) const;
  void look_at_tensors(ModelConfig& config) const;

  const GgufMetadata& metadata_;
  std::span<const TensorInfo> tensors_;
  std::unordered_set<std::string_view> names_;
  std::string prefix_;  // general.architecture
};

std::optional<std::int64_t> Reader::whole(const std::string& name) const {
  const GgufValue* value = metadata_.find(name);
  if (value == nullptr || !std::holds_alternative<GgufArray>(*value)) {
    return metadata_.integer(name);
  }
  const auto numbers = std::get<GgufArray>(*value).integers();
  const bool uniform = numbers && !numbers->empty() &&
                       std::ranges::count(*numbers, numbers->front()) ==
                           static_cast<std::ptrdiff_t>(numbers->size());
  if (!uniform) {
    fail("metadata key \"", name, "\" differs from layer to layer, which this family does not");
  }
  return numbers->front();
}

std::int64_t Reader::required(std::string_view suffix) const {
  const auto value = whole(key(suffix));
  if (!value) fail("metadata key \"", key(suffix), "\" is missing");
  return *value;
}

// One GGUF architecture may stand for several families.
Architecture Reader::find_architecture() const {
  if (const auto model_type = metadata_.string("graft.model_type")) {
    const auto own = architecture_from_model_type(*model_type);
    if (own && info(*own).gguf == prefix_) return *own;
  }
  if (prefix_ == "llama") {
    if (integer("expert_count", 0) > 0) return Architecture::Mixtral;
    return integer("attention.sliding_window", 0) > 0 ? Architecture::Mistral : Architecture::Llama;
  }
  if (prefix_ == "deepseek2") {
    const bool corrected = std::ranges::any_of(tensors_, [](const TensorInfo& tensor) {
      return tensor.name.ends_with(".exp_probs_b.bias");
    });
    const bool sigmoid = integer("expert_gating_func", keys::kSoftmax) == keys::kSigmoid;
    return corrected || sigmoid ? Architecture::DeepseekV3 : Architecture::DeepseekV2;
  }
  std::string supported;
  for (int i = 0; i <= static_cast<int>(Architecture::Llava); ++i) {
    const ArchitectureInfo& row = info(static_cast<Architecture>(i));
    if (row.gguf == prefix_) return row.architecture;
    if (supported.find(row.gguf) == std::string::npos) supported += str(' ', row.gguf);
  }
  fail(R"("general.architecture" is ")", prefix_, R"(", supported are:)", supported);
}

std::int64_t Reader::find_vocab_size() const {
  if (const auto size = whole(key("vocab_size"))) return *size;
  if (const GgufArray* tokens = metadata_.array("tokenizer.ggml.tokens")) {
    return static_cast<std::int64_t>(
        std::min<std::uint64_t>(tokens->count, std::numeric_limits<std::int32_t>::max()));
  }
  for (const TensorInfo& tensor : tensors_) {
    if (tensor.name == "token_embd.weight" && !tensor.shape.empty()) return tensor.shape.front();
  }
  fail("no \"", key("vocab_size"), "\", no tokens and no token_embd.weight to count them by");
}

void Reader::read_sizes(ModelConfig& config) const {
  config.name = metadata_.string("general.name").value_or("");
  config.vocab_size = find_vocab_size();
  config.hidden_size = required("embedding_length");
  config.intermediate_size = integer("feed_forward_length", 0);
  config.num_nextn_predict_layers = integer("nextn_predict_layers", 0);
  config.num_hidden_layers = required("block_count") - config.num_nextn_predict_layers;
  config.num_attention_heads = required("attention.head_count");
  config.max_position_embeddings = required("context_length");
  config.sliding_window = integer("attention.sliding_window", 0);
  config.max_window_layers = own_integer("graft.max_window_layers", 0);
  config.rms_norm_eps = number("attention.layer_norm_rms_epsilon", 0.0);
  config.hidden_act = metadata_.string("graft.hidden_act").value_or("silu");
}

// Files since 2025 keep kv_b_proj in two parts and describe attention as if it had one wide KV
// head; older ones keep it whole and describe the plain heads.
void Reader::read_mla(ModelConfig& config) const {
  MlaConfig& mla = config.mla;
  const bool is_split = metadata_.find(key("attention.key_length_mla")) != nullptr;
  mla.q_lora_rank = integer("attention.q_lora_rank", 0);
  mla.kv_lora_rank = required("attention.kv_lora_rank");
  mla.qk_rope_head_dim = required("rope.dimension_count");
  config.head_dim = required(is_split ? "attention.key_length_mla" : "attention.key_length");
  mla.v_head_dim = required(is_split ? "attention.value_length_mla" : "attention.value_length");
  mla.qk_nope_head_dim = config.head_dim - mla.qk_rope_head_dim;
  config.rotary_dim = mla.qk_rope_head_dim;
  config.num_key_value_heads = own_integer("graft.num_key_value_heads", config.num_attention_heads);
  config.rope_interleaved = metadata_.boolean("graft.rope_interleaved").value_or(true);
}

void Reader::read_attention(ModelConfig& config) const {
  if (keys::is_deepseek(config.architecture)) {
    read_mla(config);
    return;
  }
  const std::int64_t heads = config.num_attention_heads;
  config.num_key_value_heads = integer("attention.head_count_kv", heads);
  config.head_dim = integer("attention.key_length", heads > 0 ? config.hidden_size / heads : 0);
  config.rotary_dim = integer("rope.dimension_count", config.head_dim);
}

void Reader::read_yarn(ModelConfig& config) const {
  RopeConfig& rope = config.rope;
  rope.beta_fast = number("rope.scaling.yarn_beta_fast", rope.beta_fast);
  rope.beta_slow = number("rope.scaling.yarn_beta_slow", rope.beta_slow);
  if (metadata_.find(key("rope.scaling.yarn_attn_factor")) != nullptr) {
    rope.attention_factor = number("rope.scaling.yarn_attn_factor", 1.0);
  }
  if (keys::is_deepseek(config.architecture)) {
    const double tenth = number("rope.scaling.yarn_log_multiplier", 0.0);
    // Through f32 again: the product of a decimal and 10 is not always the nearest decimal.
    rope.mscale_all_dim = decimal(static_cast<float>(tenth / keys::kYarnLogFactor));
    rope.mscale = rope.mscale_all_dim;
  }
  if (rope.original_max_position_embeddings == 0) {
    rope.original_max_position_embeddings = config.max_position_embeddings;
  }
}

void Reader::read_own_rope(RopeConfig& rope) const {
  const auto kind = metadata_.string("graft.rope.type");
  for (const auto& [known, word] : keys::kOwnRopeKinds) {
    if (kind == word) rope.kind = known;
  }
  const auto own = [this](std::string_view name, double fallback) {
    return metadata_.number(str("graft.rope.", name)).value_or(fallback);
  };
  rope.factor = own("factor", rope.factor);
  rope.low_freq_factor = own("low_freq_factor", rope.low_freq_factor);
  rope.high_freq_factor = own("high_freq_factor", rope.high_freq_factor);
  rope.mscale = own("mscale", rope.mscale);
  rope.mscale_all_dim = own("mscale_all_dim", rope.mscale_all_dim);
  rope.original_max_position_embeddings = own_integer("graft.rope.original_max_position_embeddings",
                                                      rope.original_max_position_embeddings);
  rope.has_freq_factors = has_tensor("rope_freqs.weight") && rope.kind != RopeKind::Llama3;
}

void Reader::read_rope(ModelConfig& config) const {
  RopeConfig& rope = config.rope;
  rope.theta = number("rope.freq_base", rope.theta);
  rope.factor = number("rope.scaling.factor", number("rope.scale_linear", 1.0));
  if (rope.factor == 0.0) rope.factor = 1.0;  // "no scaling" in some files
  const auto type = metadata_.string(key("rope.scaling.type"));
  if (type && *type != "none" && *type != "linear" && *type != "yarn") {
    fail("metadata key \"", key("rope.scaling.type"), "\" is \"", *type,
         "\", supported are: none, linear, yarn");
  }
  rope.original_max_position_embeddings = integer("rope.scaling.original_context_length", 0);
  if (type == "yarn") {
    rope.kind = RopeKind::Yarn;
    read_yarn(config);
  } else if (type == "linear" || (!type && rope.factor != 1.0)) {
    rope.kind = RopeKind::Linear;
  } else {
    rope.factor = 1.0;
    rope.original_max_position_embeddings = 0;
  }
  read_own_rope(rope);
}

void Reader::read_moe(ModelConfig& config) const {
  MoeConfig& moe = config.moe;
  moe.num_experts = integer("expert_count", 0);
  if (moe.num_experts == 0) return;
  moe.num_experts_per_tok = required("expert_used_count");
  // Files from before the key: the experts of a token are as wide as the dense MLP together.
  std::int64_t width = config.intermediate_size;
  if (config.architecture != Architecture::Mixtral && moe.num_experts_per_tok > 0) {
    width /= moe.num_experts_per_tok;
  }
  moe.moe_intermediate_size = integer("expert_feed_forward_length", width);
  moe.first_k_dense_replace = integer("leading_dense_block_count", 0);
  if (config.architecture == Architecture::Qwen2Moe) {
    moe.shared_expert_intermediate_size =
        integer("expert_shared_feed_forward_length", config.intermediate_size);
    moe.num_shared_experts = moe.shared_expert_intermediate_size > 0 ? 1 : 0;
  } else {
    constexpr std::int64_t kMaxFactor = std::int64_t{1} << 31;
    moe.num_shared_experts =
        std::clamp<std::int64_t>(integer("expert_shared_count", 0), -1, kMaxFactor);
    moe.shared_expert_intermediate_size =
        moe.num_shared_experts *
        std::clamp<std::int64_t>(moe.moe_intermediate_size, -1, kMaxFactor);
  }
  moe.decoder_sparse_step = own_integer("graft.decoder_sparse_step", 1);
  if (const GgufArray* layers = metadata_.array("graft.mlp_only_layers")) {
    moe.mlp_only_layers = layers->integers().value_or(std::vector<std::int64_t>());
  }
  read_routing(config);
}

void Reader::read_routing(ModelConfig& config) const {
  MoeConfig& moe = config.moe;
  const Architecture architecture = config.architecture;
  const bool is_glm = architecture == Architecture::Glm4Moe;
  const std::int64_t gating =
      integer("expert_gating_func", is_glm ? keys::kSigmoid : keys::kSoftmax);
  if (gating != keys::kSoftmax && gating != keys::kSigmoid) {
    fail("metadata key \"", key("expert_gating_func"), "\" is ", gating,
         ", supported are 1 (softmax) and 2 (sigmoid)");
  }
  moe.scoring_func = gating == keys::kSigmoid ? ScoringFunc::Sigmoid : ScoringFunc::Softmax;
  moe.n_group =
      own_integer("graft.n_group", std::max<std::int64_t>(integer("expert_group_count", 1), 1));
  moe.topk_group = own_integer("graft.topk_group",
                               std::max<std::int64_t>(integer("expert_group_used_count", 1), 1));
  // llama.cpp renormalises for these two families whatever the file says.
  const bool norm = architecture == Architecture::Mixtral || architecture == Architecture::Qwen3Moe;
  moe.norm_topk_prob = metadata_.boolean(key("expert_weights_norm")).value_or(norm);
  const double scale = number("expert_weights_scale", 1.0);
  moe.routed_scaling_factor = scale == 0.0 ? 1.0 : scale;
  if (architecture == Architecture::DeepseekV3 || is_glm) {
    moe.topk_method = TopkMethod::NoauxTc;
  } else if (moe.n_group > 1) {
    moe.topk_method = TopkMethod::GroupLimitedGreedy;
  }
  const auto method = metadata_.string("graft.topk_method");
  for (const auto& [known, word] : keys::kTopkMethods) {
    if (method == word) moe.topk_method = known;
  }
}

void Reader::read_tokens(ModelConfig& config) const {
  config.bos_token_id = metadata_.integer("tokenizer.ggml.bos_token_id");
  config.pad_token_id = metadata_.integer("tokenizer.ggml.padding_token_id");
  if (const GgufArray* ends = metadata_.array("graft.eos_token_ids")) {
    config.eos_token_ids = ends->integers().value_or(std::vector<std::int64_t>());
  } else {
    for (const std::string_view word : {"eos", "eot", "eom"}) {
      const auto id = metadata_.integer(str("tokenizer.ggml.", word, "_token_id"));
      if (id && std::ranges::count(config.eos_token_ids, *id) == 0) {
        config.eos_token_ids.push_back(*id);
      }
    }
  }
  const auto sampling = [this](std::string_view name) {
    auto value = metadata_.number(str("general.sampling.", name));
    if (value) value = decimal(*value);
    return value;
  };
  config.temperature = sampling("temp");
  config.top_p = sampling("top_p");
  config.top_k = metadata_.integer("general.sampling.top_k");
}

void Reader::look_at_tensors(ModelConfig& config) const {
  const Architecture architecture = config.architecture;
  const bool has_shared = config.moe.num_shared_experts > 0;
  if (tensors_.empty()) {
    config.attention_bias =
        architecture == Architecture::Qwen2 || architecture == Architecture::Qwen2Moe;
    config.qk_norm = architecture == Architecture::Qwen3 || architecture == Architecture::Qwen3Moe;
    config.moe.shared_expert_gate = architecture == Architecture::Qwen2Moe && has_shared;
    return;
  }
  config.tie_word_embeddings = !has_tensor("output.weight");
  config.attention_bias = has_tensor("blk.0.attn_q.bias") || has_tensor("blk.0.attn_qkv.bias") ||
                          has_tensor("blk.0.attn_kv_a_mqa.bias");
  config.attention_output_bias = has_tensor("blk.0.attn_output.bias");
  config.mlp_bias = has_tensor("blk.0.ffn_down.bias");
  config.qk_norm = has_tensor("blk.0.attn_q_norm.weight");
  config.moe.shared_expert_gate =
      has_shared && std::ranges::any_of(tensors_, [](const TensorInfo& tensor) {
        return tensor.name.ends_with(".ffn_gate_inp_shexp.weight");
      });
}

ModelConfig Reader::read() {
  prefix_ = metadata_.string("general.architecture").value_or("");
  if (prefix_.empty()) fail("metadata key \"general.architecture\" is missing");
  ModelConfig config;
  config.architecture = find_architecture();
  read_sizes(config);
  read_attention(config);
  read_rope(config);
  read_moe(config);
  read_tokens(config);
  look_at_tensors(config);
  return config;
}

}  // namespace

ModelConfig read_gguf_config(const GgufMetadata& metadata,
                             std::span<const TensorInfo> tensors,
                             const std::string& where) {
  ModelConfig config;
  try {
    config = Reader(metadata, tensors).read();
  } catch (const Error& error) {
    fail(where, ": ", error.what());
  }
  validate(config, where);
  return config;
}

}  // namespace graft::formats
