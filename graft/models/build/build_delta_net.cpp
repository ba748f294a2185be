// Gated delta-rule layers: attention with a recurrent state.

#include <utility>

#include "graft/models/build/build.h"

namespace graft::models {

using ops::Role;
using plan::ModuleSpec;

ModuleSpec Builder::delta_net(std::int64_t layer) const {
  const std::string name = layer_name(layer) + ".linear_attn";
  const ops::DeltaNetParams params = delta_net_params(config_);
  const std::int64_t hidden = config_.hidden_size;
  ModuleSpec module = make_module(name, class_name("GatedDeltaNet"), Role::Attention, params);
  add_weight(module, name + ".conv1d.weight", {params.conv_channels(), params.conv_kernel},
             Published::Plain);
  add_weight(module, name + ".A_log", {params.num_value_heads}, Published::F32);
  add_weight(module, name + ".dt_bias", {params.num_value_heads}, Published::Plain);
  add_weight(module, name + ".norm.weight", {params.value_head_dim}, Published::Plain);
  std::vector<ModuleSpec>& children = module.children;
  children.push_back(linear(name + ".in_proj_qkv", hidden, params.conv_channels()));
  children.push_back(linear(name + ".in_proj_z", hidden, params.value_size()));
  children.push_back(linear(name + ".in_proj_b", hidden, params.num_value_heads));
  children.push_back(linear(name + ".in_proj_a", hidden, params.num_value_heads));
  children.push_back(linear(name + ".out_proj", params.value_size(), hidden));
  children.push_back(make_module(
      name + ".state_cache", "StateCache", Role::StateCache,
      ops::StateCacheParams{
          .recurrent_size = params.num_value_heads * params.key_head_dim * params.value_head_dim,
          .conv_size = (params.conv_kernel - 1) * params.conv_channels()}));
  return module;
}

ops::DeltaNetParams delta_net_params(const ModelConfig& config) {
  const DeltaNetConfig& net = config.delta_net;
  return {.num_key_heads = net.num_key_heads,
          .num_value_heads = net.num_value_heads,
          .key_head_dim = net.key_head_dim,
          .value_head_dim = net.value_head_dim,
          .conv_kernel = net.conv_kernel_dim,
          .eps = config.rms_norm_eps,
          .tiled_value_heads = net.tiled_value_heads};
}

}  // namespace graft::models
