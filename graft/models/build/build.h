// The modules that families are composed of: each function makes one module of the tree with its
// children, names, parameters and weights.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/models/config/model_config.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/tensor_index.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

// Hugging Face's names of a family's MoE block.
struct MoeNames {
  std::string_view block = "mlp";    // under the layer
  std::string moe_class;             // "DeepseekV3MoE"
  std::string router_class;          // "MoEGate"; a plain "Linear" in some families
  std::string_view router = "gate";  // under the block
};

class Builder {
 public:
  // Without a checkpoint, or when it has no tensors, weights have the types of the family's
  // published checkpoints. `config` must outlive the builder and have a family.
  Builder(const ModelConfig& config, const Checkpoint* checkpoint);

  const ModelConfig& config() const { return config_; }
  // "DeepseekV3" + "Attention"
  std::string class_name(std::string_view rest) const;

  // The root module: embedding, the given layers, final norm and head.
  plan::Blueprint causal_lm(const std::function<plan::ModuleSpec(std::int64_t layer)>& make_layer);
  // norm → attention → add → norm → mlp → add
  plan::ModuleSpec decoder_layer(std::int64_t layer,
                                 plan::ModuleSpec self_attn,
                                 plan::ModuleSpec mlp) const;

  // The same with a norm after each block, before the add: post_self_attn_layernorm and
  // post_mlp_layernorm.
  plan::ModuleSpec sandwich_layer(std::int64_t layer,
                                  plan::ModuleSpec self_attn,
                                  plan::ModuleSpec mlp) const;

  // Gemma's sandwich: input_layernorm, attention, post_attention_layernorm, add,
  // pre_feedforward_layernorm, MLP, post_feedforward_layernorm, add.
  plan::ModuleSpec gemma_layer(std::int64_t layer,
                               plan::ModuleSpec self_attn,
                               plan::ModuleSpec mlp) const;

  // Grouped-query attention, with biases and norms of q and k where the config has them.
  plan::ModuleSpec attention(std::int64_t layer) const;
  // Multi-head latent attention, with an indexer where the config has one.
  plan::ModuleSpec latent_attention(std::int64_t layer, std::string_view rope_class) const;

  // Attention over a sliding window and the entries of a compressor.
  plan::ModuleSpec compressed_attention(std::int64_t layer) const;
  // decoder_layer() with a hyper-connection for each block.
  plan::ModuleSpec hyper_layer(std::int64_t layer,
                               plan::ModuleSpec self_attn,
                               plan::ModuleSpec mlp) const;

  // Gated delta rule, with a recurrent state.
  plan::ModuleSpec delta_net(std::int64_t layer) const;

  // The dense MLP of a layer, or an MLP with the given name.
  plan::ModuleSpec mlp(std::int64_t layer) const;
  plan::ModuleSpec mlp(const std::string& name, std::int64_t intermediate_size) const;
  // Router, routed experts, and `shared` after them.
  plan::ModuleSpec moe(std::int64_t layer,
                       const MoeNames& names,
                       std::vector<plan::ModuleSpec> shared = {}) const;

  // The shared experts of a layer as one MLP of their total width; none when the config has none.
  std::vector<plan::ModuleSpec> shared_experts(std::int64_t layer) const;

  // Of a model with a vision tower (build_vision.cpp).
  plan::ModuleSpec vision_tower() const;
  plan::ModuleSpec projector() const;

  plan::ModuleSpec linear(const std::string& name,
                          std::int64_t in_features,
                          std::int64_t out_features,
                          bool bias = false) const;
  plan::ModuleSpec norm(const std::string& name, std::int64_t size, double eps) const;

 private:
  // The type of a weight in published checkpoints: FP8 ones quantize only the layers' matrices,
  // MXFP4 ones only the experts. Ids: integers.
  enum class Published : std::uint8_t { Plain, Matrix, Expert, F32, Ids };

  void add_weight(plan::ModuleSpec& module,
                  const std::string& name,
                  std::vector<std::int64_t> shape,
                  Published published) const;
  void add_scale(plan::ModuleSpec& module, const plan::WeightSpec& weight) const;
  bool has_integers(std::string_view weight) const;
  plan::ModuleSpec embedding() const;
  plan::ModuleSpec lm_head() const;
  plan::ModuleSpec rope(const std::string& name, std::string_view rope_class) const;
  plan::ModuleSpec indexer(const std::string& name, std::string_view rope_class) const;
  plan::ModuleSpec compressor(const std::string& name, bool is_sparse) const;
  plan::ModuleSpec compressed_indexer(const std::string& name) const;
  void add_windows(plan::ModuleSpec& module, const ops::CompressorParams& params) const;
  plan::ModuleSpec hyper_connection(const std::string& name, bool is_head) const;
  plan::ModuleSpec router(const std::string& name,
                          const std::string& router_class,
                          bool is_hashed) const;
  plan::ModuleSpec experts(const std::string& name) const;

  const ModelConfig& config_;
  std::optional<TensorIndex> index_;
  formats::IgnoredModules not_integers_;
  ops::RopeParams rope_;
  ops::RopeParams local_rope_;  // of layers with a sliding window and no compressed entries
};

// A module without weights and children.
plan::ModuleSpec make_module(std::string name,
                             std::string class_name,
                             ops::Role role,
                             ops::Params params = ops::NoParams{});

ops::DeltaNetParams delta_net_params(const ModelConfig& config);

// "model.layers.3"
std::string layer_name(std::int64_t layer);

}  // namespace graft::models
