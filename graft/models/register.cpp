#include <array>
#include <cstddef>

#include "graft/base/error.h"
#include "graft/models/family.h"

namespace graft::models {
namespace {

using formats::Architecture;

// clang-format off
constexpr std::array kFamilies = {
    Family{Architecture::Llama,      "Llama",      build_llama},
    Family{Architecture::Mistral,    "Mistral",    build_llama},
    Family{Architecture::Mixtral,    "Mixtral",    build_mixtral},
    Family{Architecture::Qwen2,      "Qwen2",      build_qwen2},
    Family{Architecture::Qwen2Moe,   "Qwen2Moe",   build_qwen2_moe},
    Family{Architecture::Qwen3,      "Qwen3",      build_qwen3},
    Family{Architecture::Qwen3Moe,   "Qwen3Moe",   build_qwen3_moe},
    Family{Architecture::DeepseekV2, "DeepseekV2", build_deepseek},
    Family{Architecture::DeepseekV3, "DeepseekV3", build_deepseek},
    Family{Architecture::Glm4Moe,    "Glm4Moe",    build_glm4_moe},
    Family{Architecture::Llava,      "Llama",      build_llama},
};
// clang-format on

// The table is indexed by the enum.
static_assert([] {
  for (std::size_t i = 0; i < kFamilies.size(); ++i) {
    if (static_cast<std::size_t>(kFamilies[i].architecture) != i) return false;
  }
  return true;
}());

// `share` says how many of a module's own parameters count.
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

std::span<const Family> families() {
  return kFamilies;
}

plan::Blueprint make_blueprint(const formats::ModelConfig& config,
                               const formats::WeightSource* source) {
  if (config.hidden_act != "silu") {
    fail(config.name.empty() ? "the model" : config.name, ": hidden_act is ", config.hidden_act,
         ", expected silu");
  }
  const Family& family = kFamilies[static_cast<std::size_t>(config.architecture)];
  Builder build(config, source, family.prefix);
  return family.build(build);
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
