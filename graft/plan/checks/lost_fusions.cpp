#include "graft/plan/checks/lost_fusions.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "graft/base/text/str.h"

namespace graft::plan {
namespace {

using ops::Fusion;
using ops::Phase;
using ops::Role;

class Finder {
 public:
  explicit Finder(const Plan& plan) : plan_(plan) {
    for (const Placement& placement : plan.placements)
      placements_[placement.module->name] = &placement;
  }

  void add(const Placement& parent, Phase phase, std::vector<LostFusion>& lost) const {
    const std::optional<Device> device = device_of(parent, phase);
    if (!device) return;
    for (const Fusion& fusion : plan_.registry->fusions(device->type)) {
      if (fusion.parent != parent.module->role || !applies(fusion, parent, phase)) continue;
      std::vector<LostFusion> joins = joins_of(fusion, parent, *device, phase);
      for (LostFusion& join : joins) {
        if (join.children.size() >= fusion.min_children && !join.replaced.empty())
          add(std::move(join), phase, lost);
      }
    }
  }

 private:
  const Placement* child_of(const Placement& parent, std::string_view child) const {
    const auto found = placements_.find(str(parent.module->name, '.', child));
    return found == placements_.end() ? nullptr : found->second;
  }

  // Where the module runs; none when its children are not called by an operator of graft.
  std::optional<Device> device_of(const Placement& parent, Phase phase) const {
    if (parent.module->role == Role::Layer) {
      if (child_of(parent, "input_layernorm") == nullptr) return std::nullopt;
      return layer_device(plan_, parent.module->layer, phase);
    }
    const Device device = parent.running(phase).device();
    return parent.is_native_on(device, phase) ? std::optional(device) : std::nullopt;
  }

  // Beside its children.
  bool applies(const Fusion& fusion, const Placement& parent, Phase phase) const {
    if (fusion.is_decode_only && phase != Phase::Decode) return false;
    const auto* mlp = std::get_if<ops::MlpParams>(&parent.module->params);
    if (fusion.is_silu_only && mlp != nullptr && mlp->gate != ops::MlpParams::Gate::Silu)
      return false;
    if (!fusion.only_with.empty() && child_of(parent, fusion.only_with) == nullptr) return false;
    if (!fusion.only_without.empty() && child_of(parent, fusion.only_without) != nullptr)
      return false;
    const std::int64_t layer = parent.module->layer;
    if (fusion.needs_pending_add &&
        (layer == 0 || layer_device(plan_, layer - 1, phase) != layer_device(plan_, layer, phase)))
      return false;
    const Placement* consumer =
        fusion.consumer.empty() ? nullptr : child_of(parent, fusion.consumer);
    return consumer == nullptr || consumer->running(phase).device() == device_of(parent, phase);
  }

  // Replaced children are judged as the default operator in their place would be.
  static bool supports(const Fusion& fusion, const Placement& child, bool is_native) {
    const auto* linear = std::get_if<ops::LinearParams>(&child.module->params);
    if (fusion.supports == nullptr || linear == nullptr) return true;
    if (child.module->weights.empty()) return false;
    static const ops::Kwargs none;
    return fusion.supports(*linear, child.module->weights.front().dtype,
                           is_native ? child.kwargs : none);
  }

  // A norm over all heads of q or k runs before the kernel that joins the norms of single heads.
  static bool is_row_norm(const Placement& parent, const Placement& child) {
    const auto* attention = std::get_if<ops::AttentionParams>(&parent.module->params);
    return attention != nullptr && attention->qk_norm_all_heads && child.module->role == Role::Norm;
  }

  // What the fusion joins in this module: all its children there, or those of each weight type.
  std::vector<LostFusion> joins_of(const Fusion& fusion,
                                   const Placement& parent,
                                   Device device,
                                   Phase phase) const {
    std::map<DType, LostFusion> joins;
    for (const std::string_view name : fusion.children) {
      const Placement* child = child_of(parent, name);
      if (child == nullptr || is_row_norm(parent, *child)) continue;
      const bool is_native = child->is_native_on(device, phase);
      if (!supports(fusion, *child, is_native)) continue;
      const std::vector<WeightSpec>& weights = child->module->weights;
      const bool is_typed = fusion.needs_equal_types && !weights.empty();
      LostFusion& join = joins[is_typed ? weights.front().dtype : DType::F32];
      join.children.push_back(name);
      if (is_native) continue;
      const PhasePlacement& placed = child->running(phase);
      join.replaced.push_back({.name = name,
                               .op = placed.op,
                               .device = placed.device(),
                               .is_elsewhere = placed.device() != device});
    }
    std::vector<LostFusion> found;
    for (auto& [dtype, join] : joins) {
      join.module = parent.module;
      join.fusion = &fusion;
      join.phases = {phase};
      found.push_back(std::move(join));
    }
    return found;
  }

  // One entry for both phases when they lose the same.
  static void add(LostFusion found, Phase phase, std::vector<LostFusion>& lost) {
    const auto same = std::ranges::find_if(lost, [&](const LostFusion& other) {
      return other.fusion == found.fusion && other.children == found.children &&
             other.replaced == found.replaced;
    });
    if (same == lost.end()) {
      lost.push_back(std::move(found));
    } else {
      same->phases.push_back(phase);
    }
  }

  const Plan& plan_;
  std::map<std::string_view, const Placement*, std::less<>> placements_;
};

// "q_proj is example.linear, k_proj is on cpu"
std::string reason_text(const LostFusion& lost) {
  std::string text;
  for (const ReplacedChild& child : lost.replaced) {
    const bool is_default = child.op == nullptr || child.op->is_native;
    text += str(text.empty() ? "" : ", ", child.name, " is ");
    if (!is_default) text += child.op->name;
    if (child.is_elsewhere) text += str(is_default ? "" : " ", "on ", to_string(child.device));
  }
  return text;
}

// "0-3,7"; the layers are in ascending order.
std::string layers_text(const std::vector<std::int64_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1)
      ++last;
    text += str(text.empty() ? "" : ",", layers[i]);
    if (last > i) text += str("-", layers[last]);
    i = last + 1;
  }
  return text;
}

std::string_view phase_name(Phase phase) {
  return phase == Phase::Prefill ? "prefill" : "decode";
}

}  // namespace

std::vector<LostFusion> lost_fusions(const Plan& plan) {
  const Finder finder(plan);
  std::vector<LostFusion> lost;
  for (const Placement& placement : plan.placements) {
    std::vector<LostFusion> of_module;
    for (const Phase phase : {Phase::Decode, Phase::Prefill})
      finder.add(placement, phase, of_module);
    std::ranges::move(of_module, std::back_inserter(lost));
  }
  return lost;
}

std::string lost_fusions_text(const Plan& plan) {
  struct Line {
    const ModuleSpec* module;
    std::string name;  // without the layer number
    std::string rest;
    std::vector<std::int64_t> layers;
  };
  std::vector<Line> lines;
  for (const LostFusion& lost : lost_fusions(plan)) {
    const ModuleSpec& module = *lost.module;
    std::string rest = str(": ", lost.name(), ": ", reason_text(lost));
    if (lost.phases.size() == 1) rest += str(" (", phase_name(lost.phases.front()), ")");
    std::string name = module.name_with_layer("");
    auto line = std::ranges::find_if(
        lines, [&](const Line& other) { return other.name == name && other.rest == rest; });
    if (line == lines.end())
      line = lines.insert(lines.end(), {&module, std::move(name), std::move(rest), {}});
    line->layers.push_back(module.layer);
  }
  std::string text = lines.empty() ? "" : "lost fusions:\n";
  for (const Line& line : lines)
    text += str("  ", line.module->name_with_layer(layers_text(line.layers)), line.rest, "\n");
  return text;
}

Json lost_fusions_json(const Plan& plan) {
  Json list = Json::array();
  for (const LostFusion& lost : lost_fusions(plan)) {
    Json replaced = Json::array();
    for (const ReplacedChild& child : lost.replaced) {
      replaced.push_back({{"child", child.name},
                          {"op", child.op == nullptr ? Json() : Json(child.op->name)},
                          {"device", to_string(child.device)}});
    }
    Json phases = Json::array();
    for (const Phase phase : lost.phases)
      phases.push_back(phase == Phase::Prefill ? "prefill" : "generate");
    list.push_back({{"module", lost.module->name},
                    {"fusion", lost.name()},
                    {"children", lost.children},
                    {"replaced", std::move(replaced)},
                    {"phases", std::move(phases)}});
  }
  return list;
}

}  // namespace graft::plan
