#include "graft/plan/blueprint.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <variant>

namespace graft::plan {
namespace {

// A class without a row derives from Module only. Rows of model families are in the blueprint.
constexpr std::array kClassBases = {
    ClassBase{"NonDynamicallyQuantizableLinear", "Linear"},
};

std::string_view direct_base(std::string_view class_name, std::span<const ClassBase> more) {
  for (const std::span<const ClassBase> rows : {std::span<const ClassBase>(kClassBases), more}) {
    const auto found = std::ranges::find(rows, class_name, &ClassBase::derived);
    if (found != rows.end()) return found->base;
  }
  return {};
}

// "DeepseekV3" of "DeepseekV3Model" and "DeepseekV3ForCausalLM", empty for other classes.
std::string_view family_of_model_class(std::string_view class_name) {
  constexpr std::string_view kModel = "Model";
  if (class_name.ends_with("PreTrainedModel")) return {};
  if (class_name.ends_with(kModel)) return class_name.substr(0, class_name.size() - kModel.size());
  const auto end = class_name.find("ForCausalLM");
  return end == std::string_view::npos ? std::string_view{} : class_name.substr(0, end);
}

// In every family, XModel and XForCausalLM derive from XPreTrainedModel.
bool is_pretrained_model_of(std::string_view class_name, std::string_view base) {
  constexpr std::string_view kBase = "PreTrainedModel";
  if (!base.ends_with(kBase)) return false;
  const std::string_view family = family_of_model_class(class_name);
  const std::string_view wanted = base.substr(0, base.size() - kBase.size());
  return !family.empty() && (wanted.empty() || wanted == family);
}

void visit_module(const ModuleSpec& module, const std::function<void(const ModuleSpec&)>& visitor) {
  visitor(module);
  for (const ModuleSpec& child : module.children)
    visit_module(child, visitor);
}

}  // namespace

std::int64_t WeightSpec::num_elems() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::size_t WeightSpec::bytes() const {
  return bytes_of(dtype, num_elems());
}

std::string_view ModuleSpec::last_name() const {
  return last_component(name);
}

std::string ModuleSpec::name_with_layer(std::string_view number) const {
  if (layer < 0) return name;
  const std::string own = std::to_string(layer);
  const auto at = ('.' + name + '.').find('.' + own + '.');
  return at == std::string::npos ? name : std::string(name).replace(at, own.size(), number);
}

const ModuleSpec* Blueprint::find(std::string_view name) const {
  const ModuleSpec* module = &root;
  while (module->name != name) {
    const ModuleSpec* next = nullptr;
    for (const ModuleSpec& child : module->children) {
      const bool on_path = name.starts_with(child.name) &&
                           (name.size() == child.name.size() || name[child.name.size()] == '.');
      if (on_path) next = &child;
    }
    if (next == nullptr) return nullptr;
    module = next;
  }
  return module;
}

std::uint64_t Blueprint::weight_bytes() const {
  std::uint64_t bytes = 0;
  visit([&](const ModuleSpec& module) {
    for (const WeightSpec& weight : module.weights)
      bytes += weight.bytes();
  });
  return bytes;
}

std::int64_t Blueprint::attention_window() const {
  std::int64_t largest = 0;
  bool is_bounded = true;
  visit([&](const ModuleSpec& module) {
    if (std::ranges::find(module.children, ops::Role::KvCache, &ModuleSpec::role) ==
        module.children.end())
      return;
    const auto* params = std::get_if<ops::AttentionParams>(&module.params);
    const std::int64_t window = params == nullptr            ? 0
                                : params->sliding_window > 0 ? params->sliding_window
                                                             : params->chunk;
    is_bounded = is_bounded && window > 0;
    largest = std::max(largest, window);
  });
  return is_bounded ? largest : 0;
}

void Blueprint::visit(const std::function<void(const ModuleSpec&)>& visitor) const {
  visit_module(root, visitor);
}

bool is_instance(std::string_view class_name,
                 std::string_view base,
                 std::span<const ClassBase> bases) {
  class_name = last_component(class_name);
  base = last_component(base);
  if (base == "Module" || is_pretrained_model_of(class_name, base)) return true;
  for (; !class_name.empty(); class_name = direct_base(class_name, bases)) {
    if (class_name == base) return true;
  }
  return false;
}

}  // namespace graft::plan
