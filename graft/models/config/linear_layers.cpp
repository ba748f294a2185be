#include "graft/models/config/linear_layers.h"

#include <algorithm>
#include <string>

#include "graft/base/text/str.h"

namespace graft::models {
namespace {

constexpr std::int64_t kDefaultInterval = 4;
constexpr std::int64_t kMaxLinearLayers = 4096;  // validate() reports more
constexpr const char* kLinearLayersKey = "linear_layers";

std::vector<bool> periodic_linear_layers(std::int64_t interval, std::int64_t num_layers) {
  std::vector<bool> layers;
  for (std::int64_t layer = 0; layer < std::min(num_layers, kMaxLinearLayers); ++layer)
    layers.push_back((layer + 1) % std::max<std::int64_t>(interval, 1) != 0);
  return layers;
}

std::vector<bool> read_linear_layers(const formats::Fields& fields, std::int64_t num_layers) {
  if (!fields.has("layer_types")) {
    return periodic_linear_layers(fields.integer("full_attention_interval", kDefaultInterval, 1),
                                  num_layers);
  }
  const std::vector<std::string> types = fields.texts("layer_types");
  const bool is_known = std::ranges::all_of(types, [](const std::string& type) {
    return type == "linear_attention" || type == "full_attention";
  });
  if (!is_known || static_cast<std::int64_t>(types.size()) != num_layers) {
    fields.problem("layer_types", *fields.find("layer_types"),
                   str(num_layers, " times linear_attention or full_attention"));
  }
  std::vector<bool> layers(types.size());
  for (std::size_t i = 0; i < types.size(); ++i)
    layers[i] = types[i] == "linear_attention";
  return layers;
}

}  // namespace

void read_delta_net(const formats::Fields& fields, ModelConfig& config) {
  DeltaNetConfig& net = config.delta_net;
  net.num_key_heads = fields.integer("linear_num_key_heads", 16, 1);
  net.num_value_heads = fields.integer("linear_num_value_heads", 32, 1);
  net.key_head_dim = fields.integer("linear_key_head_dim", 128, 1);
  net.value_head_dim = fields.integer("linear_value_head_dim", 128, 1);
  net.conv_kernel_dim = fields.integer("linear_conv_kernel_dim", 4, 1);
  net.layers = read_linear_layers(fields, config.num_hidden_layers);
}

void read_gguf_delta_net(const formats::GgufFields& gguf, ModelConfig& config) {
  DeltaNetConfig& net = config.delta_net;
  net.num_key_heads = gguf.required("ssm.group_count");
  net.num_value_heads = gguf.required("ssm.time_step_rank");
  net.key_head_dim = gguf.required("ssm.state_size");
  net.value_head_dim =
      net.num_value_heads > 0 ? gguf.required("ssm.inner_size") / net.num_value_heads : 0;
  net.conv_kernel_dim = gguf.required("ssm.conv_kernel");
  if (const auto layers = gguf.own_integers(kLinearLayersKey)) {
    net.layers.assign(layers->begin(), layers->end());
    return;
  }
  net.layers = periodic_linear_layers(gguf.integer("full_attention_interval", kDefaultInterval),
                                      config.num_hidden_layers);
}

void write_gguf_delta_net(const ModelConfig& config, formats::GgufKeyWriter& out) {
  const DeltaNetConfig& net = config.delta_net;
  out.integer("ssm.conv_kernel", net.conv_kernel_dim);
  out.integer("ssm.state_size", net.key_head_dim);
  out.integer("ssm.group_count", net.num_key_heads);
  out.integer("ssm.time_step_rank", net.num_value_heads);
  out.integer("ssm.inner_size", net.value_head_dim * net.num_value_heads);
  // A shortened model has the first layers of the original.
  std::vector<bool> layers = net.layers;
  layers.resize(std::min(layers.size(), static_cast<std::size_t>(config.num_hidden_layers)));
  for (std::int64_t interval = kDefaultInterval; interval <= config.num_hidden_layers + 1;
       ++interval) {
    if (layers != periodic_linear_layers(interval, config.num_hidden_layers)) continue;
    return out.integer("full_attention_interval", interval);
  }
  out.integer("full_attention_interval", kDefaultInterval);
  out.own_integers(kLinearLayersKey, std::vector<std::int64_t>(layers.begin(), layers.end()));
}

}  // namespace graft::models
