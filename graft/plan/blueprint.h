// The module tree of a model under its Hugging Face names: classes, roles, parameters, weight
// shapes and types. Built from the configuration alone; no weight is read.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/ops/params.h"
#include "graft/ops/role.h"
#include "graft/plan/rules/aliases.h"
#include "graft/tensor/dtype.h"

namespace graft::plan {

struct WeightSpec {
  std::string name;                 // "model.layers.3.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  // outermost dimension first
  DType dtype = DType::BF16;        // as stored; without a checkpoint, as the family is published

  std::int64_t num_elems() const;
  std::size_t bytes() const;
};

struct ModuleSpec {
  std::string name;        // "" for the root, "model.layers.3.self_attn"
  std::string class_name;  // "DeepseekV3Attention", "Linear"
  ops::Role role = ops::Role::Linear;
  ops::Params params;
  std::vector<WeightSpec> weights;  // without those of the children
  std::vector<ModuleSpec> children;
  std::int64_t layer = -1;  // N of "model.layers.N…", -1 outside the layers

  std::string_view last_name() const;  // "self_attn"
  // The name with `number` in place of the layer's; the name itself outside the layers.
  std::string name_with_layer(std::string_view number) const;
};

// A class and its direct base, as in the modeling files of KTransformers and Hugging Face.
struct ClassBase {
  std::string_view derived;
  std::string_view base;
};

struct Blueprint {
  std::string model_name;
  std::string family;  // model_type: "deepseek_v3"
  ModuleSpec root;
  std::int64_t num_layers = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_context = 0;
  // LongRoPE: sequences of more tokens than this use the long factors; 0: another kind of RoPE.
  std::int64_t long_rope_from = 0;
  double expert_share = 1.0;  // share of the routed experts' weights that one token uses
  // KTransformers' classes for model families: rules may name those of any family.
  std::vector<ClassAlias> class_aliases = {};
  std::vector<ClassBase> class_bases = {};  // of the module classes of all model families

  const ModuleSpec* find(std::string_view name) const;  // null when no module has the name
  std::uint64_t weight_bytes() const;                   // of all modules
  // Positions that every layer with a KV cache attends to at most, the token's own included: the
  // largest sliding window or chunk. 0: a layer attends to all.
  std::int64_t attention_window() const;
  // Depth first, parents before children.
  void visit(const std::function<void(const ModuleSpec&)>& visitor) const;
};

// Whether a class is `base` or derives from it. Rules match as KTransformers' isinstance does.
// `bases` are those of the model families (Blueprint::class_bases).
bool is_instance(std::string_view class_name,
                 std::string_view base,
                 std::span<const ClassBase> bases = {});

}  // namespace graft::plan
