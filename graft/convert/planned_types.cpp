#include "graft/convert/planned_types.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graft/convert/recipe.h"
#include "graft/models/families/tensor_names.h"

namespace graft::convert {
namespace {

using formats::TensorTransform;

constexpr int kNoFileType = -1;

bool is_kv_b(const models::MappedName& mapped) {
  return mapped.transform == TensorTransform::KvBKey ||
         mapped.transform == TensorTransform::KvBValue;
}

constexpr bool is_float8(DType type) {
  return type == DType::F8_E4M3 || type == DType::F8_E5M2;
}

// The embedding and the head stay in 16 bits in published FP8 checkpoints. The scales of the
// others, one for 128 x 128 values, are not counted.
bool is_table(const plan::WeightSpec& weight) {
  return weight.name.find("embed_tokens") != std::string::npos ||
         weight.name.find("lm_head") != std::string::npos;
}

DType planned_type(const plan::WeightSpec& weight,
                   const models::ModelConfig& config,
                   const Mix& mix) {
  if (is_id_type(weight.dtype)) return DType::I32;
  const std::vector<models::MappedName> mapped = models::to_gguf(config, weight.name);
  const bool is_float = is_float8(mix.base);
  // GGUF splits kv_b_proj into two tensors; joining them when loading needs decoded values.
  if (std::ranges::any_of(mapped, is_kv_b)) return is_float ? mix.base : DType::F32;
  // Fused weights such as glm4's gate_up_proj have no name of their own; no mix has exceptions for
  // them.
  TensorShape tensor = {.name = mapped.empty() ? weight.name : mapped.front().name,
                        .shape = weight.shape};
  // A shared expert's gate is [1, n] in the checkpoint and [n] in GGUF.
  if (tensor.shape.size() == 2 && tensor.shape[0] == 1) tensor.shape.erase(tensor.shape.begin());
  if (!is_quantizable(tensor)) return DType::F32;
  if (is_float) return is_table(weight) ? DType::BF16 : mix.base;
  return choose_type(mix, config, tensor).type;
}

class TypeSetter {
 public:
  TypeSetter(const models::ModelConfig& config, const Mix& mix) : config_(config), mix_(mix) {}

  void set(plan::ModuleSpec& module) const {
    std::erase_if(module.weights, [](const plan::WeightSpec& weight) {
      return weight.name.ends_with("_scale_inv");
    });
    if (module.role == ops::Role::Experts) {
      set_experts(module);
    } else {
      for (plan::WeightSpec& weight : module.weights)
        weight.dtype = planned_type(weight, config_, mix_);
    }
    for (plan::ModuleSpec& child : module.children)
      set(child);
  }

 private:
  // GGUF merges the experts of a layer, so a projection has one type: looked up once, not once for
  // each of hundreds of experts.
  void set_experts(plan::ModuleSpec& module) const {
    std::map<std::string, DType> types;  // by the name after the expert's number
    for (plan::WeightSpec& weight : module.weights) {
      // "model.layers.3.mlp.experts.7.up_proj.weight" -> "up_proj.weight"
      const std::size_t number = module.name.size() + 1;
      const std::size_t dot = weight.name.find('.', number);
      const std::string projection = weight.name.substr(dot == std::string::npos ? 0 : dot + 1);
      auto known = types.find(projection);
      if (known == types.end())
        known = types.emplace(projection, planned_type(weight, config_, mix_)).first;
      weight.dtype = known->second;
    }
  }

  const models::ModelConfig& config_;
  const Mix& mix_;
};

}  // namespace

Mix mix_or_type(std::string_view name) {
  const std::optional<DType> type = dtype_from_name(name);
  const auto all = mixes();
  const bool is_base = type && std::ranges::find(all, *type, &Mix::base) != all.end();
  // A type that is the base of a mix ("Q4_K") names that mix, as for `graft quantize`.
  const bool is_planned = type && (is_quantized(*type) || is_float8(*type));
  if (!is_planned || is_base) return find_mix(name);
  return {.name = graft::name(*type),
          .base = *type,
          .file_type = kNoFileType,
          .summary = "one type for all matrices"};
}

void set_types(plan::Blueprint& blueprint, const models::ModelConfig& config, const Mix& mix) {
  TypeSetter(config, mix).set(blueprint.root);
}

}  // namespace graft::convert
