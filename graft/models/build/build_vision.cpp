// The vision tower of LLaVA and its projector: modules beside the text model, each one operator.

#include <string>
#include <utility>

#include "graft/base/error.h"
#include "graft/models/build/build.h"

namespace graft::models {
namespace {

using ops::Role;
using plan::ModuleSpec;
using Activation = ops::VisionTowerParams::Activation;

Activation activation_of(const std::string& name, std::string_view key) {
  if (name == "quick_gelu") return Activation::QuickGelu;
  if (name == "gelu") return Activation::Gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::GeluTanh;
  fail(key, " is ", name, ", expected quick_gelu, gelu or gelu_pytorch_tanh");
}

}  // namespace

ModuleSpec Builder::vision_tower() const {
  const VisionConfig& vision = *config_.vision;
  const std::int64_t hidden = vision.hidden_size;
  const std::string name = "vision_tower";
  const ops::VisionTowerParams params = {
      .hidden_size = hidden,
      .intermediate_size = vision.intermediate_size,
      .num_layers = vision.num_computed_layers(),
      .num_heads = vision.num_attention_heads,
      .image_size = vision.image_size,
      .patch_size = vision.patch_size,
      .eps = vision.layer_norm_eps,
      .activation = activation_of(vision.hidden_act, "vision_config.hidden_act"),
      .keeps_class_token = vision.feature_select == "full"};
  ModuleSpec module = make_module(name, "CLIPVisionModel", Role::VisionTower, params);
  const auto add = [&](const std::string& rest, std::vector<std::int64_t> shape) {
    add_weight(module, str(name, '.', rest), std::move(shape), Published::Plain);
  };
  const auto add_both = [&](const std::string& rest, std::vector<std::int64_t> shape) {
    const std::int64_t rows = shape[0];
    add(rest + ".weight", std::move(shape));
    add(rest + ".bias", {rows});
  };
  add("embeddings.class_embedding", {hidden});
  add("embeddings.patch_embedding.weight", {hidden, 3, vision.patch_size, vision.patch_size});
  add("embeddings.position_embedding.weight", {params.num_tokens(), hidden});
  add_both("pre_layrnorm", {hidden});
  for (std::int64_t i = 0; i < params.num_layers; ++i) {
    const std::string layer = str("encoder.layers.", i, '.');
    add_both(layer + "layer_norm1", {hidden});
    for (const char* projection : {"q_proj", "k_proj", "v_proj", "out_proj"})
      add_both(layer + "self_attn." + projection, {hidden, hidden});
    add_both(layer + "layer_norm2", {hidden});
    add_both(layer + "mlp.fc1", {vision.intermediate_size, hidden});
    add_both(layer + "mlp.fc2", {hidden, vision.intermediate_size});
  }
  return module;
}

ModuleSpec Builder::projector() const {
  const VisionConfig& vision = *config_.vision;
  const std::int64_t hidden = config_.hidden_size;
  const std::string name = "multi_modal_projector";
  ModuleSpec module = make_module(
      name, "LlavaMultiModalProjector", Role::Projector,
      ops::ProjectorParams{
          .in_features = vision.hidden_size,
          .hidden_size = hidden,
          .bias = vision.projector_bias,
          .activation = activation_of(vision.projector_hidden_act, "projector_hidden_act"),
          .has_newline = vision.has_tiles});
  const auto add_linear = [&](const std::string& linear, std::int64_t in_features) {
    add_weight(module, linear + ".weight", {hidden, in_features}, Published::Plain);
    if (vision.projector_bias) add_weight(module, linear + ".bias", {hidden}, Published::Plain);
  };
  add_linear(name + ".linear_1", vision.hidden_size);
  add_linear(name + ".linear_2", hidden);
  if (vision.has_tiles) add_weight(module, "image_newline", {hidden}, Published::Plain);
  return module;
}

}  // namespace graft::models
