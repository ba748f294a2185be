#include "graft/models/open_model.h"

#include <algorithm>

#include "graft/base/out_of_memory.h"
#include "graft/base/system/system.h"
#include "graft/base/text/units.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/weights/unused_tensors.h"
#include "graft/packing/packed_cache.h"
#include "graft/plan/cache_type.h"
#include "graft/plan/experts/gpu_experts.h"
#include "graft/plan/plugins.h"
#include "graft/plan/report.h"
#include "graft/plan/rules/default_rules.h"
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
  fail_out_of_memory(
      path.string(), ": the rules put ", bytes_text(needed), " of weights on ", to_string(device),
      ", which has ", bytes_text(free),
      " free; a rule for the experts (role: experts) or for some layers (name: "
      "\"^model[.]layers[.]([2-9][0-9])[.]\") with device: cpu keeps them in host memory");
}

// The weights alone: the engine allocates the KV cache and the workspace from what is left.
constexpr perf::Workload kWeightsOnly = {.context = 0, .parallel = 0, .prefill_tokens = 0};

// Weights on the CPU: what they take, and what there is.
struct HostMemory {
  std::string subject;  // of messages
  std::uint64_t free = 0;
  bool is_limit = false;  // `free` is the limit of the options
  perf::MemoryUse use;

  std::string text() const {
    return str(subject, ": its weights take ", bytes_text(use.weights), ", but ",
               is_limit ? "only " : "the machine has only ", bytes_text(free),
               is_limit ? " may be used" : " free");
  }
};

// Throws Error unless the file of packed weights exists or fits on the disk.
void check_disk(const HostMemory& memory, const formats::WeightSource& source) {
  if (packing::PackedCache::exists_for(source)) return;
  const std::filesystem::path file = packing::PackedCache::path_for(source);
  std::error_code error;
  const auto space = std::filesystem::space(
      file.has_parent_path() ? file.parent_path() : std::filesystem::path("."), error);
  if (error || space.available >= memory.use.mapped) return;
  fail(memory.text(), ", and ", file.string(), " needs ", bytes_text(memory.use.mapped),
       " on a disk with ", bytes_text(space.available), " free");
}

// Weights larger than memory stay in the file of packed weights, if it exists or the options
// request it: a file of that size is written on request only.
LoadOptions load_from_disk(HostMemory memory,
                           const plan::Plan& plan,
                           const formats::WeightSource& source,
                           LoadOptions load) {
  memory.use = perf::memory_use(plan, kWeightsOnly, {.repack = true, .from_disk = true})[kCpu];
  if (memory.use.allocated() > memory.free) {
    fail_out_of_memory(memory.text(), ", less than the ", bytes_text(memory.use.allocated()),
                       " that cannot stay on disk; choose a smaller type");
  }
  if (!load.repack_cache && !packing::PackedCache::exists_for(source)) {
    fail_out_of_memory(
        memory.text(), "; choose a smaller type, or run from disk, slowly: --repack-cache writes ",
        bytes_text(memory.use.mapped), " to ", packing::PackedCache::path_for(source).string(),
        ", --no-repack uses the model's own file");
  }
  check_disk(memory, source);
  load.repack_cache = true;
  load.from_disk = true;
  if (load.on_warning) load.on_warning(str(memory.text(), "; they are read from disk, slowly"));
  return load;
}

// Checks the memory of every device and decides where the weights on the CPU stay.
LoadOptions check_memory(const std::filesystem::path& path,
                         const plan::Plan& plan,
                         const formats::WeightSource& source,
                         const OpenOptions& options) {
  auto devices = perf::memory_use(plan, kWeightsOnly, {.repack = options.load.repack});
  for (const auto& [device, use] : devices) {
    if (device != kCpu) check_gpu_memory(path, device, use.weights);
  }
  const HostMemory memory = {.subject = path.string(),
                             .free = options.memory != 0 ? options.memory : available_memory(),
                             .is_limit = options.memory != 0,
                             .use = devices[kCpu]};
  if (memory.free == 0 || memory.use.weights <= memory.free) return options.load;
  if (memory.use.allocated() > memory.free)
    return load_from_disk(memory, plan, source, options.load);
  if (options.load.on_warning) {
    options.load.on_warning(
        str(memory.text(), "; they are read from the model's file again and again, slowly"));
  }
  return options.load;
}

std::unique_ptr<Checkpoint> open_source(const std::filesystem::path& path,
                                        const OpenOptions& options) {
  auto source = open_checkpoint(path, options.mmproj);
  if (!options.tokenizer.empty()) source->use_tokenizer(options.tokenizer);
  return source;
}

}  // namespace

OpenModel::OpenModel(const std::filesystem::path& path, const OpenOptions& options)
    : source_(open_source(path, options)),
      blueprint_(make_blueprint(*source_)),
      registry_(options.operators(options.machine.num_gpus)),
      rules_(parse(options, *source_, blueprint_, registry_)),
      planned_(plan::make_plan(blueprint_, rules_, registry_, options.machine)),
      pool_(options.num_threads, options.cpus),
      memory_(options.memory) {
  fail_on_errors(planned_.findings);
  plan::set_cache_type(planned_.plan, options.kv_cache_dtype);
  if (options.adjust_plan) options.adjust_plan(planned_.plan);
  plan::settle_gpu_experts(planned_.plan);
  if (source_->tensors().empty()) fail(path.string(), ": the checkpoint has no weights");
  const std::string ignored = modality_warning(source_->tensors(), source_->config());
  if (!ignored.empty() && options.load.on_warning)
    options.load.on_warning(str(path.string(), ": ", ignored));
  const LoadOptions load = check_memory(path, planned_.plan, *source_, options);
  weights_ = perf::memory_use(planned_.plan, kWeightsOnly,
                              {.repack = load.repack, .from_disk = load.from_disk});
  mapped_files_.assign(source_->files().begin(), source_->files().end());
  mapped_files_.push_back(packing::PackedCache::path_for(*source_));
  is_from_disk_ = load.from_disk;
  is_repacked_ = load.repack;
  model_ = std::make_unique<Model>(planned_.plan, *source_, pool_, load);
  load_adapters(options);
  if (const auto text = damage()) fail(*text);
}

void OpenModel::load_adapters(const OpenOptions& options) {
  const std::vector<AdapterSource>& sources = options.adapters;
  if (sources.size() > static_cast<std::size_t>(ops::kMaxAdapters))
    fail(sources.size(), " adapters, at most ", ops::kMaxAdapters, " are supported");
  for (const AdapterSource& source : sources) {
    check_adapter_name(source.name);
    const auto has_name = [&](const AdapterInfo& info) { return info.source.name == source.name; };
    if (std::ranges::any_of(adapters_, has_name)) fail("two adapters have the name ", source.name);
    const Adapter adapter(source, *source_, blueprint_);
    if (!adapter.base_warning().empty() && options.load.on_warning)
      options.load.on_warning(adapter.base_warning());
    model_->set_adapter(static_cast<std::int32_t>(adapters_.size()), adapter);
    adapters_.push_back(adapter.info());
  }
}

std::map<Device, perf::MemoryUse> OpenModel::memory_use() const {
  std::map<Device, perf::MemoryUse> use = weights_;
  for (const auto& [device, bytes] : model_->cache_bytes_by_device())
    use[device].kv_cache = bytes * static_cast<std::uint64_t>(model_->num_blocks());
  for (const auto& [device, bytes] : model_->state_bytes_by_device())
    use[device].states = bytes * static_cast<std::uint64_t>(model_->num_state_slots());
  for (const auto& [device, bytes] : model_->adapter_bytes())
    use[device].weights += bytes;
  for (const auto& [device, bytes] : model_->workspace_bytes())
    use[device].workspace = bytes;
  return use;
}

std::uint64_t OpenModel::memory_left(Device device) const {
  if (device != kCpu) return device_memory(device.type)->available(device.index);
  std::uint64_t left = available_memory();
  if (memory_ != 0) {
    const auto found = weights_.find(kCpu);
    const perf::MemoryUse host = found == weights_.end() ? perf::MemoryUse() : found->second;
    // Mapped weights count as long as they fit: they are in memory too.
    const std::uint64_t weights = host.weights <= memory_ ? host.weights : host.allocated();
    const auto adapters = model_->adapter_bytes().find(kCpu);
    const std::uint64_t used =
        weights + (adapters == model_->adapter_bytes().end() ? 0 : adapters->second);
    const std::uint64_t within = memory_ - std::min(memory_, used);
    left = left == 0 ? within : std::min(left, within);
  }
  // The other half holds weights that would be read from disk again.
  return is_from_disk_ ? left / 2 : left;
}

}  // namespace graft::models
