#include "graft/plan/experts/gpu_experts.h"

#include <string>
#include <variant>

#include "graft/base/check.h"
#include "graft/ops/builtin_kwargs.h"

namespace graft::plan {
namespace {

std::int64_t num_experts(const ModuleSpec& module) {
  const auto* params = std::get_if<ops::ExpertsParams>(&module.params);
  return params == nullptr ? 0 : params->num_experts;
}

// The text of the kwarg; empty when the rule does not set it.
std::string_view kwarg_text(const Placement& placement) {
  const auto found = placement.kwargs.find(ops::gpu_experts_kwarg().key);
  return found == placement.kwargs.end() ? std::string_view() : std::string_view(found->second);
}

// Without statistics every expert is used equally often.
std::vector<Share> shares_of(std::int64_t count, std::int64_t total, Device gpu) {
  const double fraction = static_cast<double>(count) / static_cast<double>(total);
  const Part copies = {.axis = Part::Axis::Experts, .begin = 0, .end = count, .total = total};
  const Part others = {.axis = Part::Axis::Experts, .begin = count, .end = total, .total = total};
  return {{.device = gpu, .part = copies, .fraction = fraction},
          {.device = kCpu, .part = others, .fraction = 1 - fraction, .held = 1}};
}

}  // namespace

std::int64_t gpu_experts(const Placement& placement) {
  const Share& first = placement.decode.shares.front();
  const bool has_copies = placement.host_op != nullptr && placement.decode.is_split();
  return has_copies ? first.part.end - first.part.begin : 0;
}

bool has_auto_gpu_experts(const Placement& placement) {
  return placement.host_op != nullptr && ops::is_auto_count(kwarg_text(placement));
}

void set_gpu_experts(Placement& placement, std::int64_t count) {
  const std::int64_t total = num_experts(*placement.module);
  GRAFT_CHECK(placement.host_op != nullptr && count >= 0 && count <= total, placement.module->name,
              ": ", count, " of ", total, " experts");
  placement.kwargs.insert_or_assign(ops::gpu_experts_kwarg().key, std::to_string(count));
  const Device gpu = placement.prefill.device();
  const bool is_out_default = placement.out_device == placement.decode.device();
  if (count == 0) {
    placement.decode.op = placement.host_op;
    placement.decode.place_whole(kCpu);
    placement.prefill.place_whole(gpu);
  } else {
    placement.decode.op = placement.prefill.op;
    placement.decode.shares = placement.prefill.shares = shares_of(count, total, gpu);
  }
  if (is_out_default) placement.out_device = placement.decode.device();
}

void place_gpu_experts(Placement& placement) {
  const std::string_view text = kwarg_text(placement);
  const std::int64_t total = num_experts(*placement.module);
  if (text.empty() || placement.host_op == nullptr) return;
  const auto count = ops::parse_count(ops::gpu_experts_kwarg(), text, total);
  // Other values are errors or `auto`.
  if (count && *count <= total) set_gpu_experts(placement, *count);
}

void settle_gpu_experts(Plan& plan) {
  for (Placement& placement : plan.placements) {
    if (has_auto_gpu_experts(placement)) set_gpu_experts(placement, 0);
  }
}

}  // namespace graft::plan
