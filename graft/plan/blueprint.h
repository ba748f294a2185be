// What a model is, module by module, before a weight is read: a tree under Hugging Face names.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/ops/params.h"
#include "graft/ops/role.h"
#include "graft/plan/aliases.h"
#include "graft/tensor/dtype.h"

namespace graft::plan {

struct WeightSpec {
  std::string name;                 // "model.layers.3.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  // outermost first
  DType dtype = DType::BF16;        // in the checkpoint; without one, as the family is published

  std::int64_t num_elems() const;
  std::size_t bytes() const;
};

struct ModuleSpec {
  std::string name;        // "" for the root, "model.layers.3.self_attn"
  std::string class_name;  // "DeepseekV3Attention", "Linear"
  ops::Role role = ops::Role::Linear;
  ops::Params params;
  std::vector<WeightSpec> weights;  // its own, not its children's
  std::vector<ModuleSpec> children;
  std::int64_t layer = -1;  // of "model.layers.N…", -1 outside

  std::string_view last_name() const;  // "self_attn"
};

struct Blueprint {
  std::string model_name;
  std::string family;  // model_type: "deepseek_v3"
  ModuleSpec root;
  std::int64_t num_layers = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_context = 0;
  // Share of the routed experts' weights that one token uses.
  double expert_share = 1.0;
  // KTransformers' classes for model families: rules may name those of any family.
  std::vector<ClassAlias> class_aliases = {};

  const ModuleSpec* find(std::string_view name) const;
  // Depth first, parents before children.
  void visit(const std::function<void(const ModuleSpec&)>& visitor) const;
};

// The class itself and what it derives from, so that a rule for a base class matches: KTransformers
// compares with isinstance.
bool is_instance(std::string_view class_name, std::string_view base);

}  // namespace graft::plan
