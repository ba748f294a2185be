#include "graft/formats/huggingface/hf_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "graft/base/error.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/formats/huggingface/hf_families.h"
#include "graft/formats/huggingface/hf_rope.h"

namespace graft::formats {
namespace {

bool is_deepseek(Architecture architecture) {
  return architecture == Architecture::DeepseekV2 || architecture == Architecture::DeepseekV3;
}

bool is_qwen2(Architecture architecture) {
  return architecture == Architecture::Qwen2 || architecture == Architecture::Qwen2Moe;
}

bool is_qwen3(Architecture architecture) {
  return architecture == Architecture::Qwen3 || architecture == Architecture::Qwen3Moe;
}

std::string supported_model_types() {
  std::string names;
  for (int i = 0; i <= static_cast<int>(Architecture::Llava); ++i) {
    names += str(info(static_cast<Architecture>(i)).model_type, ", ");
  }
  return names + "kimi_k2";
}

// By model_type; a type that is not known may still name a known class.
Architecture find_architecture(const Fields& config, const std::string& where) {
  const std::string model_type = config.text("model_type", "");
  if (const auto known = architecture_from_model_type(model_type)) return *known;
  const std::vector<std::string> classes = config.texts("architectures");
  for (int i = 0; i <= static_cast<int>(Architecture::Llava); ++i) {
    const auto architecture = static_cast<Architecture>(i);
    if (std::ranges::count(classes, info(architecture).hf_class) > 0) return architecture;
  }
  if (model_type.empty() && classes.empty()) {
    fail(where, ": no \"model_type\", supported are: ", supported_model_types());
  }
  fail(where, R"(: "model_type" is ")", model_type, R"(", supported are: )",
       supported_model_types());
}

void read_sizes(const Fields& fields, const FamilyDefaults& family, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", family.vocab_size, 1);
  config.hidden_size = fields.integer("hidden_size", family.hidden_size, 1);
  config.intermediate_size = fields.integer("intermediate_size", family.intermediate_size);
  config.num_hidden_layers = fields.integer("num_hidden_layers", family.num_hidden_layers, 1);
  config.num_nextn_predict_layers = fields.integer("num_nextn_predict_layers", 0);
  config.num_attention_heads = fields.integer("num_attention_heads", family.num_attention_heads, 1);
  // An explicit null is "as many as heads" for every family; an absent key is the class's default.
  const bool kv_as_heads = family.num_key_value_heads == 0 || fields.is_null("num_key_value_heads");
  config.num_key_value_heads =
      fields.integer("num_key_value_heads",
                     kv_as_heads ? config.num_attention_heads : family.num_key_value_heads, 1);
  config.max_position_embeddings =
      fields.integer("max_position_embeddings", family.max_position_embeddings, 1);
  config.rms_norm_eps = fields.number("rms_norm_eps", family.rms_norm_eps);
  config.hidden_act = fields.text("hidden_act", "silu");
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", false);
}

void read_mla(const Fields& fields, ModelConfig& config) {
  MlaConfig& mla = config.mla;
  mla.q_lora_rank = fields.is_null("q_lora_rank") ? 0 : fields.integer("q_lora_rank", 1536);
  mla.kv_lora_rank = fields.integer("kv_lora_rank", 512, 1);
  mla.qk_nope_head_dim = fields.integer("qk_nope_head_dim", 128, 1);
  mla.qk_rope_head_dim = fields.integer("qk_rope_head_dim", 64, 1);
  mla.v_head_dim = fields.integer("v_head_dim", 128, 1);
  config.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
}

// Which families have biases and norms in attention whatever the file says, and which ask it.
void read_attention(const Fields& fields, const FamilyDefaults& family, ModelConfig& config) {
  const Architecture architecture = config.architecture;
  if (is_deepseek(architecture)) {
    read_mla(fields, config);
    config.rope_interleaved =
        architecture == Architecture::DeepseekV2 || fields.boolean("rope_interleave", true);
  } else {
    const std::int64_t even_share = config.hidden_size / config.num_attention_heads;
    const bool named = family.head_dim > 0 && !fields.is_null("head_dim");
    config.head_dim = fields.integer("head_dim", named ? family.head_dim : even_share, 1);
    if (!fields.has("head_dim") && !named && config.hidden_size % config.num_attention_heads != 0) {
      fields.problem(
          "num_attention_heads", config.num_attention_heads,
          str("a divisor of hidden_size ", config.hidden_size, " when head_dim is not given"));
    }
  }
  if (is_qwen2(architecture)) {
    config.attention_bias = fields.boolean("qkv_bias", true);
  } else if (architecture != Architecture::Mistral && architecture != Architecture::Mixtral) {
    config.attention_bias = fields.boolean("attention_bias", false);
    config.attention_output_bias = config.attention_bias && architecture != Architecture::Glm4Moe;
  }
  if (architecture == Architecture::Llama || architecture == Architecture::Llava) {
    config.mlp_bias = fields.boolean("mlp_bias", false);
  }
  config.qk_norm = is_qwen3(architecture) ||
                   (architecture == Architecture::Glm4Moe && fields.boolean("use_qk_norm", false));
}

// "layer_types" says layer by layer what older files say with max_window_layers.
std::optional<std::int64_t> first_window_layer(const Fields& fields, std::int64_t num_layers) {
  if (!fields.has("layer_types")) return std::nullopt;
  const std::vector<std::string> types = fields.texts("layer_types");
  const auto first = std::ranges::find(types, "sliding_attention");
  const bool known =
      std::all_of(types.begin(), first,
                  [](const std::string& type) { return type == "full_attention"; }) &&
      std::all_of(first, types.end(),
                  [](const std::string& type) { return type == "sliding_attention"; });
  if (!known) {
    fields.problem("layer_types", *fields.find("layer_types"),
                   "full_attention up to one layer, sliding_attention from there on");
  }
  return first == types.end() ? num_layers : first - types.begin();
}

void read_sliding_window(const Fields& fields, ModelConfig& config) {
  const Architecture architecture = config.architecture;
  constexpr std::int64_t kWindow = 4096;  // transformers' default where a family has a window
  if (architecture == Architecture::Mistral) {
    config.sliding_window = fields.is_null("sliding_window") ? 0 : kWindow;
    config.sliding_window = fields.integer("sliding_window", config.sliding_window);
  } else if (architecture == Architecture::Mixtral) {
    config.sliding_window = fields.integer("sliding_window", 0);
  } else if (is_qwen2(architecture) || is_qwen3(architecture)) {
    if (!fields.boolean("use_sliding_window", false)) return;
    config.sliding_window = fields.integer("sliding_window", kWindow);
    // Qwen3-MoE has no such key: its window is for all layers.
    const std::int64_t fallback = architecture == Architecture::Qwen3Moe ? 0 : 28;
    config.max_window_layers = first_window_layer(fields, config.num_hidden_layers)
                                   .value_or(fields.integer("max_window_layers", fallback));
  }
  if (config.sliding_window == 0 || config.max_window_layers >= config.num_hidden_layers) {
    config.sliding_window = 0;
    config.max_window_layers = 0;
  }
}

std::int64_t read_num_experts(const Fields& fields, const MoeDefaults& defaults) {
  constexpr std::array<std::string_view, 3> kSpellings = {"num_experts", "num_local_experts",
                                                          "n_routed_experts"};
  for (const std::string_view key : kSpellings) {
    if (fields.is_null(key)) return 0;
    if (fields.has(key)) return fields.integer(key, 0);
  }
  return defaults.num_experts;
}

void read_scoring(const Fields& fields, Architecture architecture, MoeConfig& moe) {
  // DeepSeek-V3 and GLM route by the bias-corrected sigmoid whether their files say so or not.
  if (architecture == Architecture::DeepseekV3 || architecture == Architecture::Glm4Moe) {
    moe.scoring_func = ScoringFunc::Sigmoid;
    moe.topk_method = TopkMethod::NoauxTc;
  }
  const std::string scoring = fields.text("scoring_func", "");
  if (scoring == "softmax") {
    moe.scoring_func = ScoringFunc::Softmax;
  } else if (scoring == "sigmoid") {
    moe.scoring_func = ScoringFunc::Sigmoid;
  } else if (!scoring.empty()) {
    fields.problem("scoring_func", scoring, "softmax or sigmoid");
  }
  const std::string method = fields.text("topk_method", "");
  if (method == "greedy") {
    moe.topk_method = TopkMethod::Greedy;
  } else if (method == "group_limited_greedy") {
    moe.topk_method = TopkMethod::GroupLimitedGreedy;
  } else if (method == "noaux_tc") {
    moe.topk_method = TopkMethod::NoauxTc;
  } else if (!method.empty()) {
    fields.problem("topk_method", method, "greedy, group_limited_greedy or noaux_tc");
  }
}

void read_shared_experts(const Fields& fields, const MoeDefaults& defaults, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  if (config.architecture == Architecture::Qwen2Moe) {
    moe.shared_expert_intermediate_size = fields.integer("shared_expert_intermediate_size", 5632);
    moe.num_shared_experts = moe.shared_expert_intermediate_size > 0 ? 1 : 0;
    moe.shared_expert_gate = moe.num_shared_experts > 0;
    return;
  }
  if (!fields.is_null("n_shared_experts")) {
    moe.num_shared_experts = fields.integer("n_shared_experts", defaults.num_shared_experts);
  }
  // Both factors are at most 2^40 here; validate() looks at the product's size.
  constexpr std::int64_t kMaxFactor = std::int64_t{1} << 31;
  moe.shared_expert_intermediate_size = std::min(moe.num_shared_experts, kMaxFactor) *
                                        std::min(moe.moe_intermediate_size, kMaxFactor);
}

void read_moe(const Fields& fields, ModelConfig& config) {
  const MoeDefaults* defaults = moe_defaults(config.architecture);
  if (defaults == nullptr) return;
  MoeConfig moe;
  moe.num_experts = read_num_experts(fields, *defaults);
  if (moe.num_experts == 0) return;

  config.moe = moe;
  MoeConfig& out = config.moe;
  out.num_experts_per_tok = fields.integer("num_experts_per_tok", defaults->num_experts_per_tok);
  out.moe_intermediate_size =
      config.architecture == Architecture::Mixtral
          ? config.intermediate_size
          : fields.integer("moe_intermediate_size", defaults->moe_intermediate_size);
  out.first_k_dense_replace =
      fields.integer("first_k_dense_replace", defaults->first_k_dense_replace);
  out.decoder_sparse_step = fields.integer("decoder_sparse_step", 1);
  out.mlp_only_layers = fields.integers("mlp_only_layers");
  out.n_group = fields.integer("n_group", defaults->n_group);
  out.topk_group = fields.integer("topk_group", defaults->topk_group);
  out.routed_scaling_factor =
      fields.number("routed_scaling_factor", defaults->routed_scaling_factor);
  // Mixtral has no such key: its code always renormalises.
  out.norm_topk_prob = config.architecture == Architecture::Mixtral ||
                       fields.boolean("norm_topk_prob", defaults->norm_topk_prob);
  read_scoring(fields, config.architecture, out);
  read_shared_experts(fields, *defaults, config);
  if (const auto frequency = fields.integer("moe_layer_freq"); frequency && *frequency != 1) {
    fields.problem("moe_layer_freq", *frequency, "1");
  }
}

void read_vision(const Fields& top, ModelConfig& config) {
  // Without a vision_config transformers takes CLIP-L at 336 pixels; with one, keys left out are
  // those of CLIP-B.
  const bool given = top.has("vision_config");
  const Fields fields = top.object("vision_config");
  VisionConfig vision;
  vision.hidden_size = fields.integer("hidden_size", given ? 768 : 1024, 1);
  vision.intermediate_size = fields.integer("intermediate_size", given ? 3072 : 4096, 1);
  vision.num_hidden_layers = fields.integer("num_hidden_layers", given ? 12 : 24, 1);
  vision.num_attention_heads = fields.integer("num_attention_heads", given ? 12 : 16, 1);
  vision.image_size = fields.integer("image_size", given ? 224 : 336, 1);
  vision.patch_size = fields.integer("patch_size", given ? 32 : 14, 1);
  vision.layer_norm_eps = fields.number("layer_norm_eps", 1e-5);
  vision.hidden_act = fields.text("hidden_act", "quick_gelu");
  if (const std::string type = fields.text("model_type", ""); !type.empty()) {
    if (type != "clip_vision_model") fields.problem("model_type", type, "clip_vision_model");
  }
  vision.feature_layer = top.integer("vision_feature_layer").value_or(-2);
  vision.feature_select = top.text("vision_feature_select_strategy", "default");
  if (vision.feature_select != "default" && vision.feature_select != "full") {
    top.problem("vision_feature_select_strategy", vision.feature_select, "default or full");
  }
  vision.projector_hidden_act = top.text("projector_hidden_act", "gelu");
  const std::int64_t image_token = top.integer("image_token_index", 32000);
  vision.image_token_index = top.integer("image_token_id", image_token);
  config.vision = vision;
}

void read_quantization(const Fields& top, QuantizationConfig& quantization) {
  if (!top.has("quantization_config")) return;
  const Fields fields = top.object("quantization_config");
  quantization.method = fields.text("quant_method", "unknown");
  quantization.weight_block_size = fields.integers("weight_block_size");
  // compressed-tensors says it per group; one group is what published checkpoints have.
  const Fields weights = fields.object("config_groups").object("group_0").object("weights");
  if (quantization.weight_block_size.empty() && weights.has("block_structure")) {
    quantization.weight_block_size = weights.integers("block_structure");
  }
}

// -1 stands for "none" in some published files.
std::optional<std::int64_t> token_id(const Fields& fields, std::string_view key) {
  const auto id = fields.integer(key);
  return id && *id >= 0 ? id : std::nullopt;
}

void read_tokens(const Fields& fields, ModelConfig& config) {
  if (const auto id = token_id(fields, "bos_token_id")) config.bos_token_id = id;
  if (const auto id = token_id(fields, "pad_token_id")) config.pad_token_id = id;
  std::vector<std::int64_t> ends = fields.integers("eos_token_id", true);
  std::erase_if(ends, [](std::int64_t id) { return id < 0; });
  if (!ends.empty()) config.eos_token_ids = ends;
}

void read_generation(const Json& generation_config,
                     std::vector<std::string>& problems,
                     ModelConfig& config) {
  const Fields fields(generation_config, "generation_config.", problems);
  read_tokens(fields, config);
  config.temperature = fields.number("temperature");
  config.top_p = fields.number("top_p");
  config.top_k = fields.integer("top_k");
  if (!fields.boolean("do_sample", true)) config.temperature = 0.0;
}

// The family whose defaults hold for the text model of LLaVA.
Architecture text_family(const Fields& text) {
  const std::string type = text.text("model_type", "llama");
  if (type == "mistral") return Architecture::Mistral;
  if (type != "llama") text.problem("model_type", type, "llama or mistral");
  return Architecture::Llava;
}

}  // namespace

ModelConfig read_hf_config(const Json& config,
                           const Json* generation_config,
                           const std::string& where) {
  std::vector<std::string> problems;
  const Fields top(config, "", problems);
  fail_if_any(problems, where);

  ModelConfig out;
  out.architecture = find_architecture(top, where);
  const bool is_llava = out.architecture == Architecture::Llava;
  const Fields text = is_llava ? top.object("text_config") : top;
  const FamilyDefaults& family = family_defaults(is_llava ? text_family(text) : out.architecture);
  out.torch_dtype = top.text("torch_dtype", top.text("dtype", ""));
  read_sizes(text, family, out);
  read_attention(text, family, out);
  if (is_llava && family.architecture == Architecture::Mistral) {
    out.sliding_window = text.integer("sliding_window", text.is_null("sliding_window") ? 0 : 4096);
  }
  read_sliding_window(text, out);
  read_moe(text, out);
  read_rope(text, family, out);
  read_quantization(top, out.quantization);
  read_tokens(text, out);
  if (is_llava) {
    read_tokens(top, out);
    read_vision(top, out);
  }
  if (generation_config != nullptr) read_generation(*generation_config, problems, out);
  fail_if_any(problems, where);
  validate(out, where);
  return out;
}

}  // namespace graft::formats
