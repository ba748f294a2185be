#include "graft/cli/bench/random_adapter.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/formats/safetensors/safetensors_writer.h"
#include "graft/formats/tensor_spec.h"
#include "graft/ops/params.h"
#include "graft/ops/role.h"

namespace graft::cli {
namespace {

struct AdaptedLayer {
  std::string name;
  std::int64_t in = 0;
  std::int64_t out = 0;
};

void add_layers(const plan::ModuleSpec& module, std::vector<AdaptedLayer>& layers) {
  const bool is_block = module.role == ops::Role::Attention || module.role == ops::Role::Mlp;
  for (const plan::ModuleSpec& child : module.children) {
    const auto* linear = std::get_if<ops::LinearParams>(&child.params);
    if (is_block && linear != nullptr && linear->groups == 1) {
      layers.push_back(
          {.name = child.name, .in = linear->in_features, .out = linear->out_features});
    }
    add_layers(child, layers);
  }
}

std::vector<std::byte> random_matrix(std::int64_t count, float stddev, std::mt19937_64& random) {
  // Uniform: a fast generator matters for the millions of values of a large model.
  std::uniform_real_distribution<float> value(-1.7F * stddev, 1.7F * stddev);
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (std::uint16_t& code : values)
    code = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value(random)) >> 16U);
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

void write_random_adapter(const plan::Blueprint& blueprint,
                          std::int64_t rank,
                          std::uint64_t seed,
                          const std::filesystem::path& folder) {
  std::vector<AdaptedLayer> layers;
  add_layers(blueprint.root, layers);
  if (layers.empty()) fail("the model has no linear layers that can have adapters");
  std::filesystem::create_directories(folder);
  const OrderedJson config = {{"peft_type", "LORA"}, {"r", rank}, {"lora_alpha", rank}};
  std::ofstream(folder / "adapter_config.json") << config.dump() << '\n';
  std::vector<formats::TensorSpec> tensors;
  for (const AdaptedLayer& layer : layers) {
    const std::string name = "base_model.model." + layer.name;
    tensors.push_back(
        {.name = name + ".lora_A.weight", .dtype = DType::BF16, .shape = {rank, layer.in}});
    tensors.push_back(
        {.name = name + ".lora_B.weight", .dtype = DType::BF16, .shape = {layer.out, rank}});
  }
  formats::SafetensorsWriter writer(folder / "adapter_model.safetensors", {}, tensors);
  std::mt19937_64 random(seed);
  for (const AdaptedLayer& layer : layers) {
    const float scale = 1.0F / std::sqrt(static_cast<float>(layer.in));
    writer.append(random_matrix(rank * layer.in, scale, random));
    writer.append(random_matrix(layer.out * rank, 0.01F, random));
  }
  writer.finish();
}

}  // namespace graft::cli
