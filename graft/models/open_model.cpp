#include "graft/models/open_model.h"

#include <algorithm>

#include "graft/base/error.h"
#include "graft/base/system/system.h"
#include "graft/base/text/units.h"
#include "graft/models/make_blueprint.h"
#include "graft/plan/default_rules.h"
#include "graft/plan/gpu_experts.h"
#include "graft/plan/plugins.h"
#include "graft/plan/report.h"
#include "graft/tensor/device_memory.h"

namespace graft::models {
namespace {

void fail_on_errors(const std::vector<plan::Finding>& findings) {
  if (!plan::has_errors(findings)) return;
  std::string text = plan::findings_text(findings);
  text.pop_back();  // an Error has no line break at its end
  fail(text);
}

std::filesystem::path default_rules(const formats::WeightSource& source,
                                    const std::string& family,
                                    int num_gpus) {
  DeviceMemory* gpus = num_gpus == 0 ? nullptr : device_memory(DeviceType::Cuda);
  const std::uint64_t free = gpus == nullptr ? 0 : gpus->available(0);
  std::uint64_t bytes = 0;
  for (const formats::TensorInfo& tensor : source.tensors())
    bytes += tensor.data.size();
  return plan::default_rules(family, num_gpus, plan::fits_gpu(bytes, free));
}

plan::RuleFile read(const OpenOptions& options,
                    const formats::WeightSource& source,
                    const plan::Blueprint& blueprint,
                    std::vector<plan::Finding>& findings) {
  if (!options.rules.empty()) return plan::parse_rules(options.rules, options.rules_path, findings);
  if (options.make_rules)
    return plan::parse_rules(options.make_rules(blueprint), "automatic placement", findings);
  return plan::read_rules(default_rules(source, blueprint.family, options.machine.num_gpus),
                          findings);
}

plan::RuleFile parse(const OpenOptions& options,
                     const formats::WeightSource& source,
                     const plan::Blueprint& blueprint,
                     ops::Registry& registry) {
  std::vector<plan::Finding> findings;
  plan::RuleFile rules = read(options, source, blueprint, findings);
  plan::load_plugins(options.plugins, rules, registry, findings);
  fail_on_errors(findings);
  return rules;
}

void check_gpu_memory(const std::filesystem::path& path, Device device, std::uint64_t needed) {
  const std::uint64_t free = device_memory(device.type)->available(device.index);
  if (needed <= free) return;
  fail(path.string(), ": the rules put ", bytes_text(needed), " of weights on ", to_string(device),
       ", which has ", bytes_text(free),
       " free; a rule for the experts (role: experts) or for some layers (name: "
       "\"^model[.]layers[.]([2-9][0-9])[.]\") with device: cpu keeps them in host memory");
}

// Repacked weights are copies in memory; the others stay in the page cache, which the system can
// evict.
void check_memory(const std::filesystem::path& path,
                  const plan::Plan& plan,
                  const OpenOptions& options) {
  for (const auto& [device, bytes] : plan::weight_bytes_by_device(plan)) {
    if (device != kCpu) check_gpu_memory(path, device, bytes);
  }
  const std::uint64_t needed = plan::weight_bytes_on(plan, kCpu);
  const std::uint64_t free = options.memory != 0 ? options.memory : available_memory();
  if (!options.load.repack || free == 0 || needed <= free) return;
  fail(path.string(), ": its weights take ", bytes_text(needed), ", but ",
       options.memory != 0 ? "only " : "the machine has only ", bytes_text(free),
       options.memory != 0 ? " may be used" : " free",
       "; choose a smaller type, or run from the mapped file (--no-repack, slow)");
}

}  // namespace

OpenModel::OpenModel(const std::filesystem::path& path, const OpenOptions& options)
    : source_(open_checkpoint(path)),
      blueprint_(make_blueprint(*source_)),
      registry_(options.operators(options.machine.num_gpus)),
      rules_(parse(options, *source_, blueprint_, registry_)),
      planned_(plan::make_plan(blueprint_, rules_, registry_, options.machine)),
      pool_(options.num_threads, options.cpus),
      memory_(options.memory) {
  fail_on_errors(planned_.findings);
  if (options.adjust_plan) options.adjust_plan(planned_.plan);
  plan::settle_gpu_experts(planned_.plan);
  if (source_->tensors().empty()) fail(path.string(), ": the checkpoint has no weights");
  check_memory(path, planned_.plan, options);
  model_ = std::make_unique<Model>(planned_.plan, *source_, pool_, options.load);
}

std::uint64_t OpenModel::memory_left(Device device) const {
  if (device != kCpu) return device_memory(device.type)->available(device.index);
  const std::uint64_t free = available_memory();
  if (memory_ == 0) return free;
  const std::uint64_t weights = plan::weight_bytes_on(planned_.plan, kCpu);
  const std::uint64_t left = memory_ - std::min(memory_, weights);
  return free == 0 ? left : std::min(free, left);
}

}  // namespace graft::models
