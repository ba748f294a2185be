#include <array>
#include <span>
#include <string>
#include <vector>

#include "graft/testing/ktransformers.h"

namespace graft {
namespace {

KTransformersClasses deepseek_v2_classes() {
  return {.models = "modeling_deepseek",
          .rope = "DeepseekV2YarnRotaryEmbedding",
          .rope_op = "RoPE.YarnRotaryEmbedding",
          .moe = "DeepseekV2MoE",
          .moe_op = "experts.KDeepseekV2MoE",
          .attention_op = "attention.KDeepseekV2Attention",
          .model_op = "models.KDeepseekV2Model",
          .excluded = R"(self_attn\.kv_b_proj)"};
}

KTransformersClasses deepseek_v2_lite_classes() {
  KTransformersClasses classes = deepseek_v2_classes();
  classes.excluded = "self_attn";
  return classes;
}

KTransformersClasses deepseek_v3_classes(
    const std::string& rope_op = "RoPE.YarnRotaryEmbeddingV3") {
  return {.models = "modeling_deepseek_v3",
          .rope = "DeepseekV3RotaryEmbedding",
          .rope_op = rope_op,
          .moe = "DeepseekV3MoE",
          .moe_op = "experts.KDeepseekV3MoE",
          .gate = "MoEGate",
          .attention_op = "attention.KDeepseekV2Attention",
          .model_op = "models.KDeepseekV2Model",
          .excluded = R"(self_attn\.kv_b_proj)"};
}

KTransformersClasses deepseek_v3_serve_classes(
    const std::string& rope_op = "RoPE.YarnRotaryEmbeddingV3") {
  KTransformersClasses classes = deepseek_v3_classes(rope_op);
  classes.moe_op = "experts.KDeepseekV3MoEV2";
  classes.experts_op = "experts.KTransformersExpertsV2";
  classes.attention_op = "balance_serve_attention.flashinfer_attn";
  classes.norm = "DeepseekV3RMSNorm";
  classes.norm_op = "layernorm.RMSNorm";
  classes.mlp = "DeepseekV3MLP";
  classes.mlp_op = "mlp.kDeepseekV3MLP";
  return classes;
}

KTransformersClasses mixtral_classes() {
  return {.models = "modeling_mixtral",
          .rope = "MixtralRotaryEmbedding",
          .rope_op = "RoPE.RotaryEmbedding",
          .moe = "MixtralSparseMoeBlock",
          .moe_op = "experts.KMistralSparseMoEBlock",
          .moe_name = "block_sparse_moe"};
}

KTransformersClasses qwen2_moe_classes() {
  return {.models = "modeling_qwen2_moe",
          .rope = "Qwen2MoeRotaryEmbedding",
          .rope_op = "RoPE.RotaryEmbedding",
          .moe = "Qwen2MoeSparseMoeBlock",
          .moe_op = "experts.KQwen2MoeSparseMoeBlock",
          .model_op = "models.KQwen2MoeModel"};
}

KTransformersClasses qwen2_moe_serve_classes() {
  KTransformersClasses classes = qwen2_moe_classes();
  classes.moe_op = "experts.KQwen2MoeSparseMoeBlockV2";
  classes.experts_op = "experts.KTransformersExpertsV2";
  classes.attention_op = "balance_serve_attention.KQwen2MoeAttention";
  classes.norm = "Qwen2MoeRMSNorm";
  classes.norm_op = "layernorm.KQwen2MoeRMSNorm";
  classes.mlp = "Qwen2MoeMLP";
  classes.mlp_op = "mlp.KQwen2MoeMLP";
  classes.excluded = R"(mlp\.shared_expert_gate)";
  return classes;
}

// The files match the rotary embedding of Qwen2, which no module of Qwen3 has.
KTransformersClasses qwen3_moe_classes() {
  KTransformersClasses classes = qwen2_moe_serve_classes();
  classes.models = "modeling_qwen3_moe";
  classes.moe = "Qwen3MoeSparseMoeBlock";
  classes.moe_op = "experts.KQwen3MoeSparseMoeBlockV2";
  classes.attention_op = "balance_serve_attention.KQwen3MoeAttention";
  classes.norm = "Qwen3MoeRMSNorm";
  classes.norm_op = "layernorm.KQwen3MoeRMSNorm";
  classes.mlp = "Qwen3MoeMLP";
  return classes;
}

KTransformersClasses qwen3_next_classes() {
  KTransformersClasses classes = qwen2_moe_serve_classes();
  classes.models = "modeling_qwen3_next";
  classes.rope = "Qwen3NextRotaryEmbedding";
  classes.rope_op = "RoPE.KQwen3MoeRotaryEmbedding";
  classes.moe = "Qwen3NextSparseMoeBlock";
  classes.moe_op = "experts.KQwen3NextSparseMoeBlockV2";
  classes.attention = "Qwen3NextAttention";
  classes.attention_op = "balance_serve_attention.KQwen3NextAttention";
  classes.delta_net = "Qwen3NextGatedDeltaNet";
  classes.delta_net_op = "balance_serve_attention.KQwen3NextGatedDeltaNet";
  classes.model_op = "";
  classes.norm = "Qwen3NextRMSNorm";
  classes.norm_op = "layernorm.KQwen3NextRMSNorm";
  classes.mlp = "Qwen3NextMLP";
  return classes;
}

KTransformersClasses glm4_moe_classes() {
  return {.models = "modeling_glm4_moe",
          .rope = "Glm4MoeRotaryEmbedding",
          .rope_op = "RoPE.KGlm4MoeRotaryEmbedding",
          .moe = "Glm4MoeMoE",
          .moe_op = "experts.KGlm4MoeMoE",
          .experts_op = "experts.KGlm4Experts",
          .attention_op = "balance_serve_attention.KGlm4MoeAttention",
          .norm = "Glm4MoeRMSNorm",
          .norm_op = "layernorm.KGlm4MoeRMSNorm",
          .mlp = "Glm4MoeMLP",
          .mlp_op = "mlp.KGlm4MoeMLP",
          .excluded = R"(mlp\.shared_expert_gate)"};
}

KTransformersClasses llama_classes() {
  return {.models = "modeling_llama",
          .rope = "LlamaRotaryEmbedding",
          .rope_op = "RoPE.RotaryEmbeddingV2",
          .moe = {},
          .moe_op = {},
          .attention_op = "attention.KLlamaAttention",
          .model_op = "models.KLlamaModel"};
}

// Layers of the published models.
constexpr std::int64_t kDeepseekV2Layers = 60;
constexpr std::int64_t kDeepseekV2LiteLayers = 27;
constexpr std::int64_t kDeepseekV3Layers = 61;
constexpr std::int64_t kQwen2Layers = 28;

const std::vector<LayerSplit> kTwoGpus = {{0, "cuda:0"}, {30, "cuda:1"}};
const std::vector<LayerSplit> kFourGpus = {
    {0, "cuda:0"}, {15, "cuda:1"}, {30, "cuda:2"}, {45, "cuda:3"}};
const std::vector<LayerSplit> kEightGpus = {{0, "cuda:0"},  {8, "cuda:1"},  {16, "cuda:2"},
                                            {24, "cuda:3"}, {32, "cuda:4"}, {40, "cuda:5"},
                                            {48, "cuda:6"}, {56, "cuda:7"}};

void add_deepseek_v2(std::vector<KTransformersFile>& files) {
  KTransformersFile chat = {.name = "DeepSeek-V2-Chat",
                            .checkpoint = "deepseek-v2-yarn",
                            .config = "DeepSeek-V2",
                            .classes = deepseek_v2_classes(),
                            .num_layers = kDeepseekV2Layers};
  files.push_back(chat);
  chat.name = "DeepSeek-V2-Chat-multi-gpu";
  chat.splits = kTwoGpus;
  files.push_back(chat);
  chat.name = "DeepSeek-V2-Chat-multi-gpu-4";
  chat.splits = kFourGpus;
  files.push_back(chat);

  KTransformersFile lite = {.name = "DeepSeek-V2-Lite-Chat",
                            .checkpoint = "deepseek-v2-lite",
                            .config = "DeepSeek-V2-Lite",
                            .classes = deepseek_v2_classes(),
                            .num_layers = kDeepseekV2LiteLayers};
  files.push_back(lite);
  lite.name = "DeepSeek-V2-Lite-Chat-multi-gpu";
  lite.classes = deepseek_v2_lite_classes();
  lite.splits = {{0, "cuda:0"}, {10, "cuda:1"}};
  files.push_back(lite);
  lite.name = "DeepSeek-V2-Lite-Chat-gpu-cpu";
  lite.classes.gate = "MoEGate";
  lite.splits = {{0, "cuda:0"}, {10, "cpu"}};
  lite.head_device = "cuda:0";
  files.push_back(lite);
}

void add_deepseek_v3(std::vector<KTransformersFile>& files) {
  const KTransformersFile chat = {.name = "DeepSeek-V3-Chat",
                                  .checkpoint = "deepseek-v3-yarn",
                                  .config = "DeepSeek-V3",
                                  .classes = deepseek_v3_classes(),
                                  .num_layers = kDeepseekV3Layers,
                                  .sets_absorb = true};
  files.push_back(chat);
  KTransformersFile file = chat;
  file.name = "DeepSeek-V3-Chat-amx";
  file.backend = "AMXInt8";
  files.push_back(file);
  file = chat;
  file.name = "DeepSeek-V3-Chat-multi-gpu-4";
  file.splits = kFourGpus;
  files.push_back(file);
  file.name = "DeepSeek-V3-Chat-multi-gpu-8";
  file.splits = kEightGpus;
  file.sets_absorb = false;
  files.push_back(file);
  file.name = "DeepSeek-V3-Chat-multi-gpu";
  file.splits = kTwoGpus;
  files.push_back(file);
  file.name = "DeepSeek-V3-Chat-multi-gpu-marlin";
  file.gpu_experts = {5, 1};
  file.head_device = "cuda:0";
  files.push_back(file);
  file = chat;
  file.name = "DeepSeek-V3-Chat-serve";
  file.classes = deepseek_v3_serve_classes();
  file.linear_op = "VLinearMarlin";
  file.head_op = "VLinearMarlin";
  files.push_back(file);
  // For ROCm, which PyTorch also calls cuda.
  file = chat;
  file.name = "rocm/DeepSeek-V3-Chat";
  file.linear_op = "KLinearQ8";
  file.head_op = "KLinearCPUInfer";
  file.head_decodes_on_cpu = true;
  files.push_back(file);
}

void add_deepseek_v3_fp8(std::vector<KTransformersFile>& files) {
  KTransformersFile file = {.name = "DeepSeek-V3-Chat-fp8-linear-ggml-experts",
                            .checkpoint = "deepseek-v3-fp8",
                            .config = "DeepSeek-V3",
                            .classes = deepseek_v3_classes(),
                            .num_layers = kDeepseekV3Layers,
                            .linear_op = "KLinearFP8",
                            .head_op = ""};
  files.push_back(file);
  file.name = "DeepSeek-V3-Chat-multi-gpu-fp8-linear-ggml-experts";
  file.splits = kTwoGpus;
  file.head_op = "default";
  file.sets_absorb = true;
  files.push_back(file);
  file.name = "DeepSeek-V3-Chat-fp8-linear-ggml-experts-serve";
  file.classes = deepseek_v3_serve_classes();
  file.splits = {};
  file.head_op = "VLinearMarlin";
  file.sets_absorb = false;
  files.push_back(file);
  file.name = "DeepSeek-V3-Chat-fp8-linear-ggml-experts-serve-amx";
  file.backend = "llamafile";
  files.push_back(file);
}

// No configuration and no checkpoint of Moonlight is stored: it has the architecture of
// DeepSeek-V3, without YaRN.
void add_moonlight(std::vector<KTransformersFile>& files) {
  files.push_back({.name = "Moonlight-16B-A3B",
                   .checkpoint = "deepseek-v3",
                   .config = "DeepSeek-V3",
                   .classes = deepseek_v3_classes("RoPE.RotaryEmbeddingV3")});
  files.push_back({.name = "Moonlight-16B-A3B-serve",
                   .checkpoint = "deepseek-v3",
                   .config = "DeepSeek-V3",
                   .classes = deepseek_v3_serve_classes("RoPE.RotaryEmbeddingV4"),
                   .linear_op = "VLinearMarlin",
                   .head_op = "VLinearMarlin",
                   .sets_absorb = true});
}

void add_qwen(std::vector<KTransformersFile>& files) {
  files.push_back({.name = "Qwen2-57B-A14B-Instruct",
                   .checkpoint = "qwen2-moe",
                   .config = "Qwen2-57B-A14B",
                   .classes = qwen2_moe_classes(),
                   .has_catch_all = true});
  files.push_back({.name = "Qwen2-57B-A14B-Instruct-multi-gpu",
                   .checkpoint = "qwen2-moe",
                   .config = "Qwen2-57B-A14B",
                   .classes = qwen2_moe_classes(),
                   .num_layers = kQwen2Layers,
                   .splits = {{0, "cuda:0"}, {3, "cuda:1"}},
                   .moe_has_devices = false,
                   .has_dead_linears = true});
  KTransformersFile serve = {.name = "Qwen2-serve",
                             .checkpoint = "qwen2-moe",
                             .config = "Qwen2-57B-A14B",
                             .classes = qwen2_moe_serve_classes(),
                             .linear_op = "VLinearMarlin"};
  files.push_back(serve);
  serve.name = "Qwen2-serve-amx";
  serve.backend = "AMXInt8";
  files.push_back(serve);
  serve = {.name = "Qwen3Moe-serve",
           .checkpoint = "qwen3-moe",
           .config = "Qwen3-235B-A22B",
           .classes = qwen3_moe_classes(),
           .head_op = "VLinearMarlin"};
  files.push_back(serve);
  serve.name = "Qwen3Moe-serve-amx";
  serve.backend = "AMXBF16";
  files.push_back(serve);
  files.push_back({.name = "Qwen3Next-serve",
                   .checkpoint = "qwen3-next",
                   .config = "Qwen3-Next-80B-A3B",
                   .classes = qwen3_next_classes(),
                   .head_op = "VLinearMarlin"});
}

void add_others(std::vector<KTransformersFile>& files) {
  files.push_back({.name = "Glm4Moe-serve",
                   .checkpoint = "glm4-moe",
                   .config = "GLM-4.5-Air",
                   .classes = glm4_moe_classes(),
                   .head_op = "VLinearMarlin",
                   .prefill_experts_op = "None"});
  // No configuration and no checkpoint of InternLM 2.5 is stored: KTransformers runs it with the
  // classes of Llama.
  files.push_back({.name = "Internlm2_5-7b-Chat-1m",
                   .checkpoint = "llama",
                   .config = "Llama-3.1-8B",
                   .classes = llama_classes(),
                   .is_llama = true});
  files.push_back({.name = "Mixtral",
                   .checkpoint = "mixtral",
                   .config = "Mixtral-8x7B",
                   .classes = mixtral_classes(),
                   .has_catch_all = true,
                   .moe_has_devices = false});
}

constexpr std::array kUnsupported = {
    UnsupportedKTransformersFile{"DeepSeek-V3-Chat-npu", "needs an NPU"},
    UnsupportedKTransformersFile{"npu/DeepSeek-V3-Chat-300IA2-npu", "needs an NPU"},
    UnsupportedKTransformersFile{"npu/DeepSeek-V3-Chat-300IA2-npu-serve", "needs an NPU"},
    UnsupportedKTransformersFile{"npu/Qwen3-Chat-300IA2-npu-serve", "needs an NPU"},
    UnsupportedKTransformersFile{"xpu/DeepSeek-V2-Chat", "needs an XPU"},
    UnsupportedKTransformersFile{"xpu/DeepSeek-V3-Chat", "needs an XPU"},
    UnsupportedKTransformersFile{"xpu/Qwen3Moe-Chat", "needs an XPU"},
    UnsupportedKTransformersFile{"Smallthinker-serve", "graft has no SmallThinker family"},
};

}  // namespace

std::span<const KTransformersFile> ktransformers_files() {
  static const std::vector<KTransformersFile> files = [] {
    std::vector<KTransformersFile> made;
    add_deepseek_v2(made);
    add_deepseek_v3(made);
    add_deepseek_v3_fp8(made);
    add_moonlight(made);
    add_qwen(made);
    add_others(made);
    return made;
  }();
  return files;
}

std::span<const UnsupportedKTransformersFile> unsupported_ktransformers_files() {
  return kUnsupported;
}

}  // namespace graft
