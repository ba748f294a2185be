#include "graft/models/weights/layer_read_ahead.h"

#include <algorithm>
#include <string>

namespace graft::models {
namespace {

std::vector<std::string> expert_prefixes(const plan::Blueprint& blueprint) {
  std::vector<std::string> prefixes;
  blueprint.visit([&](const plan::ModuleSpec& module) {
    if (module.role == ops::Role::Experts) prefixes.push_back(module.name + ".");
  });
  return prefixes;
}

// Weights outside the layers belong to the head: only it is packed.
std::size_t layer_of(const std::string& weight, const plan::Blueprint& blueprint) {
  const std::string module = weight.substr(0, weight.rfind('.'));
  const plan::ModuleSpec* found = blueprint.find(module);
  const bool is_outside = found == nullptr || found->layer < 0;
  return static_cast<std::size_t>(is_outside ? blueprint.num_layers : found->layer);
}

}  // namespace

LayerReadAhead::LayerReadAhead(const plan::Blueprint& blueprint, std::span<const Panels> panels) {
  if (panels.empty()) return;
  layers_.resize(static_cast<std::size_t>(blueprint.num_layers) + 1);
  const std::vector<std::string> experts = expert_prefixes(blueprint);
  for (const Panels& weight : panels) {
    const bool is_expert = std::ranges::any_of(
        experts, [&](const std::string& prefix) { return weight->name().starts_with(prefix); });
    if (!is_expert) layers_[layer_of(weight->name(), blueprint)].push_back(weight);
  }
}

void LayerReadAhead::begin_layer(std::size_t layer, ThreadPool& pool) const {
  if (empty()) return;
  if (layer == 0) {
    for (const Panels& weight : layers_[0])
      weight->read_ahead();
  }
  // After the head follows the first layer of the next pass.
  for (const Panels& weight : layers_[(layer + 1) % layers_.size()])
    weight->read_ahead();
  for (const Panels& weight : layers_[layer])
    weight->verify(&pool);
}

}  // namespace graft::models
