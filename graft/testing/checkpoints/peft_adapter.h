// Writes a PEFT adapter with random matrices for a checkpoint.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/formats/safetensors/safetensors_writer.h"
#include "graft/formats/tensor_spec.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/ops/params.h"
#include "graft/plan/blueprint.h"

namespace graft::testing {

// Of rank 4 for every q_proj and down_proj. `size`: standard deviation of the matrices.
inline void write_peft_adapter(const std::filesystem::path& base,
                               const std::filesystem::path& folder,
                               unsigned seed,
                               float size) {
  constexpr std::int64_t kRank = 4;
  const auto model = models::open_checkpoint(base);
  const plan::Blueprint blueprint = models::make_blueprint(*model);
  std::vector<formats::TensorSpec> specs;
  blueprint.visit([&](const plan::ModuleSpec& module) {
    if (module.last_name() != "q_proj" && module.last_name() != "down_proj") return;
    const auto* params = std::get_if<ops::LinearParams>(&module.params);
    if (params == nullptr) return;
    const std::string name = "base_model.model." + module.name;
    specs.push_back({.name = name + ".lora_A.weight", .shape = {kRank, params->in_features}});
    specs.push_back({.name = name + ".lora_B.weight", .shape = {params->out_features, kRank}});
  });
  std::filesystem::create_directories(folder);
  const Json config = {{"peft_type", "LORA"}, {"r", kRank}, {"lora_alpha", kRank}};
  std::ofstream(folder / "adapter_config.json") << config.dump();
  std::mt19937 random(seed);
  std::normal_distribution<float> values(0.0F, size);
  formats::SafetensorsWriter writer(folder / "adapter_model.safetensors", {}, specs);
  for (const formats::TensorSpec& spec : specs) {
    std::vector<float> matrix(static_cast<std::size_t>(spec.shape[0] * spec.shape[1]));
    for (float& value : matrix)
      value = values(random);
    writer.append(std::as_bytes(std::span(matrix)));
  }
  writer.finish();
}

}  // namespace graft::testing
