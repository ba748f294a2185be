#include "graft/models/build/make_blueprint.h"

#include <span>
#include <vector>

#include "graft/base/error.h"
#include "graft/models/build/build.h"
#include "graft/models/families/family.h"

namespace graft::models {
namespace {

template <class T>
void append(std::vector<T>& list, std::span<const T> rows) {
  list.insert(list.end(), rows.begin(), rows.end());
}

plan::Blueprint build(const ModelConfig& config, const Checkpoint* checkpoint) {
  const std::string subject = config.name.empty() ? "the model" : config.name;
  if (config.family == nullptr) {
    fail(subject, ": unknown model family: the checkpoint has no config.json");
  }
  const bool is_gelu = config.hidden_act == "gelu_pytorch_tanh" && !config.is_moe();
  if (config.hidden_act != "silu" && !is_gelu) {
    fail(subject, ": hidden_act is ", config.hidden_act, ", expected silu",
         config.is_moe() ? "" : " or gelu_pytorch_tanh");
  }
  Builder builder(config, checkpoint);
  plan::Blueprint blueprint = config.family->build(builder);
  if (config.vision) {
    blueprint.root.children.push_back(builder.vision_tower());
    blueprint.root.children.push_back(builder.projector());
  }
  for (const Family* family : families()) {
    append(blueprint.class_aliases, family->ktransformers_classes);
    append(blueprint.class_bases, family->class_bases);
  }
  return blueprint;
}

// `share(module, own)` returns how many of the `own` parameters of a module count.
template <class Share>
std::int64_t count_parameters(const plan::Blueprint& blueprint, Share share) {
  std::int64_t total = 0;
  blueprint.visit([&](const plan::ModuleSpec& module) {
    std::int64_t own = 0;
    for (const plan::WeightSpec& weight : module.weights) {
      if (!weight.name.ends_with("_scale_inv")) own += weight.num_elems();
    }
    total += share(module, own);
  });
  return total;
}

}  // namespace

plan::Blueprint make_blueprint(const ModelConfig& config) {
  return build(config, nullptr);
}

plan::Blueprint make_blueprint(const Checkpoint& checkpoint) {
  return build(checkpoint.config(), &checkpoint);
}

std::int64_t num_parameters(const plan::Blueprint& blueprint) {
  return count_parameters(blueprint, [](const plan::ModuleSpec&, std::int64_t own) { return own; });
}

std::int64_t num_parameters_per_token(const plan::Blueprint& blueprint) {
  return count_parameters(blueprint, [](const plan::ModuleSpec& module, std::int64_t own) {
    if (module.role != ops::Role::Experts) return own;
    const auto& params = std::get<ops::ExpertsParams>(module.params);
    return own / params.num_experts * params.top_k;
  });
}

}  // namespace graft::models
