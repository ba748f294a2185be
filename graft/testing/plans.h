// Small blueprints for tests: the module trees of a few families under the names and classes that
// KTransformers' rule files match, with few experts and small matrices but all their layers.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/registry.h"
#include "graft/plan/blueprint.h"

namespace graft::plan::testing {

using ops::Role;

struct Shape {
  std::string family;  // "deepseek_v3"
  std::string prefix;  // of class names: "DeepseekV3"
  std::string rope;    // class of the rotary embedding
  std::int64_t num_layers = 4;
  std::int64_t num_dense = 0;  // leading layers without experts; num_layers: no experts at all
  bool mla = false;
  bool qk_norm = false;
  std::string moe_name = "mlp";
  std::string moe_class;  // "DeepseekV3MoE"
  std::string mlp_class;  // "DeepseekV3MLP"
  std::string gate_name = "gate";
  std::string gate_class = "Linear";
  std::string shared;          // "shared_experts", empty: none
  bool shared_gate = false;    // mlp.shared_expert_gate
  bool rope_in_model = false;  // model.rotary_emb, else in every attention
  std::string causal_lm;       // class of the root, empty: prefix + ForCausalLM
};

class Builder {
 public:
  explicit Builder(Shape shape) : shape_(std::move(shape)) {}

  Blueprint build() const {
    Blueprint blueprint;
    blueprint.model_name = "test";
    blueprint.family = shape_.family;
    blueprint.num_layers = shape_.num_layers;
    blueprint.vocab_size = 256;
    blueprint.max_context = 4096;
    blueprint.class_aliases = {{"KDeepseekV3MoE", Role::Moe},
                               {"KDeepseekV2Attention", Role::Attention},
                               {"KDeepseekV2Model", Role::Model},
                               {"KQwen2MoeMLP", Role::Mlp}};
    blueprint.class_bases = {{"DeepseekV2YarnRotaryEmbedding", "DeepseekV2RotaryEmbedding"},
                             {"DeepseekV3YarnRotaryEmbedding", "DeepseekV3RotaryEmbedding"}};
    const std::string root_class =
        shape_.causal_lm.empty() ? shape_.prefix + "ForCausalLM" : shape_.causal_lm;
    blueprint.root = module("", root_class, Role::Model, -1);
    ModuleSpec model = module("model", shape_.prefix + "Model", Role::Model, -1);
    model.children.push_back(weighted("model.embed_tokens", "Embedding", Role::Embedding, -1));
    for (std::int64_t i = 0; i < shape_.num_layers; ++i)
      model.children.push_back(layer(i));
    model.children.push_back(norm("model.norm", -1));
    if (shape_.rope_in_model) {
      model.children.push_back(module("model.rotary_emb", shape_.rope, Role::Rope, -1));
    }
    blueprint.root.children.push_back(std::move(model));
    blueprint.root.children.push_back(weighted("lm_head", "Linear", Role::Linear, -1));
    return blueprint;
  }

 private:
  static ModuleSpec module(std::string name,
                           std::string class_name,
                           Role role,
                           std::int64_t layer) {
    ModuleSpec spec;
    spec.name = std::move(name);
    spec.class_name = std::move(class_name);
    spec.role = role;
    spec.layer = layer;
    return spec;
  }

  // A module with one BF16 weight of 64 KiB, or 100 times that for experts.
  static ModuleSpec weighted(const std::string& name,
                             const std::string& class_name,
                             Role role,
                             std::int64_t layer) {
    ModuleSpec spec = module(name, class_name, role, layer);
    std::vector<std::int64_t> shape = {128, 256};
    if (role == Role::Experts) {
      shape.insert(shape.begin(), 100);
      spec.params = ops::ExpertsParams{.num_experts = 100, .top_k = 2};
    }
    spec.weights.push_back({.name = name + ".weight", .shape = shape, .dtype = DType::BF16});
    return spec;
  }

  static ModuleSpec linear(const std::string& name, std::int64_t layer) {
    return weighted(name, "Linear", Role::Linear, layer);
  }

  ModuleSpec norm(const std::string& name, std::int64_t layer) const {
    ModuleSpec spec = module(name, shape_.prefix + "RMSNorm", Role::Norm, layer);
    spec.weights.push_back({.name = name + ".weight", .shape = {256}, .dtype = DType::F32});
    return spec;
  }

  ModuleSpec layer(std::int64_t i) const {
    const std::string name = "model.layers." + std::to_string(i);
    ModuleSpec spec = module(name, shape_.prefix + "DecoderLayer", Role::Layer, i);
    spec.children.push_back(attention(name + ".self_attn", i));
    const std::string mlp_name = str(name, ".", shape_.moe_name);
    spec.children.push_back(i < shape_.num_dense ? mlp(mlp_name, i) : moe(mlp_name, i));
    spec.children.push_back(norm(name + ".input_layernorm", i));
    spec.children.push_back(norm(name + ".post_attention_layernorm", i));
    return spec;
  }

  ModuleSpec attention(const std::string& name, std::int64_t i) const {
    ModuleSpec spec = module(name, shape_.prefix + "Attention", Role::Attention, i);
    const std::vector<std::string> projections =
        shape_.mla ? std::vector<std::string>{"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa",
                                              "kv_b_proj", "o_proj"}
                   : std::vector<std::string>{"q_proj", "k_proj", "v_proj", "o_proj"};
    for (const std::string& projection : projections) {
      spec.children.push_back(linear(str(name, ".", projection), i));
    }
    if (shape_.mla) {
      spec.children.push_back(norm(name + ".q_a_layernorm", i));
      spec.children.push_back(norm(name + ".kv_a_layernorm", i));
    }
    if (shape_.qk_norm) {
      spec.children.push_back(norm(name + ".q_norm", i));
      spec.children.push_back(norm(name + ".k_norm", i));
    }
    if (!shape_.rope_in_model) {
      spec.children.push_back(module(name + ".rotary_emb", shape_.rope, Role::Rope, i));
    }
    spec.children.push_back(module(name + ".kv_cache", "KvCache", Role::KvCache, i));
    return spec;
  }

  ModuleSpec mlp(const std::string& name, std::int64_t i) const {
    ModuleSpec spec = module(name, shape_.mlp_class, Role::Mlp, i);
    for (const char* part : {".gate_proj", ".up_proj", ".down_proj"}) {
      spec.children.push_back(linear(name + part, i));
    }
    return spec;
  }

  ModuleSpec moe(const std::string& name, std::int64_t i) const {
    ModuleSpec spec = module(name, shape_.moe_class, Role::Moe, i);
    spec.children.push_back(
        weighted(str(name, ".", shape_.gate_name), shape_.gate_class, Role::Router, i));
    spec.children.push_back(weighted(name + ".experts", "ModuleList", Role::Experts, i));
    if (!shape_.shared.empty()) spec.children.push_back(mlp(str(name, ".", shape_.shared), i));
    if (shape_.shared_gate) spec.children.push_back(linear(name + ".shared_expert_gate", i));
    return spec;
  }

  Shape shape_;
};

inline Blueprint deepseek_v3(std::int64_t num_layers = 61) {
  Shape shape;
  shape.family = "deepseek_v3";
  shape.prefix = "DeepseekV3";
  shape.rope = "DeepseekV3YarnRotaryEmbedding";
  shape.num_layers = num_layers;
  shape.num_dense = 3;
  shape.mla = true;
  shape.moe_class = "DeepseekV3MoE";
  shape.mlp_class = "DeepseekV3MLP";
  shape.gate_class = "MoEGate";
  shape.shared = "shared_experts";
  return Builder(shape).build();
}

inline Blueprint deepseek_v2(std::int64_t num_layers = 60) {
  Shape shape;
  shape.family = "deepseek_v2";
  shape.prefix = "DeepseekV2";
  shape.rope = "DeepseekV2YarnRotaryEmbedding";
  shape.num_layers = num_layers;
  shape.num_dense = 1;
  shape.mla = true;
  shape.moe_class = "DeepseekV2MoE";
  shape.mlp_class = "DeepseekV2MLP";
  shape.gate_class = "MoEGate";
  shape.shared = "shared_experts";
  return Builder(shape).build();
}

inline Blueprint mixtral(std::int64_t num_layers = 32) {
  Shape shape;
  shape.family = "mixtral";
  shape.prefix = "Mixtral";
  shape.rope = "MixtralRotaryEmbedding";
  shape.num_layers = num_layers;
  shape.moe_name = "block_sparse_moe";
  shape.moe_class = "MixtralSparseMoeBlock";
  return Builder(shape).build();
}

inline Blueprint qwen2_moe(std::int64_t num_layers = 28) {
  Shape shape;
  shape.family = "qwen2_moe";
  shape.prefix = "Qwen2Moe";
  shape.rope = "Qwen2MoeRotaryEmbedding";
  shape.num_layers = num_layers;
  shape.moe_class = "Qwen2MoeSparseMoeBlock";
  shape.mlp_class = "Qwen2MoeMLP";
  shape.shared = "shared_expert";
  shape.shared_gate = true;
  return Builder(shape).build();
}

// Registers operators that can be planned but not run.
inline void add_operators(ops::Registry& registry, DeviceType device) {
  const std::string prefix = device == DeviceType::Cpu ? "cpu." : "cuda.";
  for (const Role role :
       {Role::Embedding, Role::Norm, Role::Linear, Role::Rope, Role::Attention, Role::Indexer,
        Role::KvCache, Role::Mlp, Role::Moe, Role::Router, Role::Experts}) {
    ops::OperatorInfo info;
    info.name = prefix + std::string(ops::name(role));
    info.role = role;
    info.device = device;
    info.is_native = true;
    if (role == Role::Experts) {
      info.kwargs = device == DeviceType::Cpu
                        ? std::vector{ops::defer_kwarg()}
                        : std::vector{ops::stream_from_kwarg(), ops::gpu_experts_kwarg()};
    }
    registry.add(std::move(info));
  }
}

inline ops::Registry cpu_registry() {
  ops::Registry registry;
  add_operators(registry, DeviceType::Cpu);
  return registry;
}

inline ops::Registry full_registry() {
  ops::Registry registry = cpu_registry();
  add_operators(registry, DeviceType::Cuda);
  return registry;
}

}  // namespace graft::plan::testing
