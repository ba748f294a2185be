#include "graft/api/open_options.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"
#include "graft/base/text/str.h"
#include "graft/models/expert_stats.h"
#include "graft/perf/auto_rules.h"
#include "graft/perf/estimate.h"
#include "graft/perf/gpus.h"
#include "graft/tensor/gpus.h"

namespace graft::api {
namespace {

// Throws Error when `device` does not exist.
GpuList find_gpus(const std::string& device) {
  GpuList list = list_gpus();
  if (!device.empty()) requested_device(device, list);
  return list;
}

// Rules for LlmConfig without a rule file; empty: chosen for the machine.
std::string default_rules(const std::string& device, int num_gpus) {
  if (num_gpus == 0) return "[]";
  if (device.empty()) return {};
  return str(R"(- {match: {name: ""}, replace: {class: default, kwargs: {device: ")", device,
             R"("}}})", '\n');
}

perf::MachineFigures free_machine(const GpuList& list, std::uint64_t memory_limit) {
  perf::MachineFigures machine = perf::this_machine();
  perf::set_found_gpus(machine, list);
  perf::set_free_memory(machine, list, memory_limit);
  return machine;
}

// What a placement leaves memory for: one sequence of max_model_len tokens, more of them up to
// 32768 tokens. 0 leaves the choice to the placement.
perf::Workload placed_load(const EngineConfig& config) {
  constexpr std::int64_t kSharedTokens = 32768;
  const std::int64_t length = config.max_model_len;
  const std::int64_t block = config.kvcache_block_size > 0 ? config.kvcache_block_size : 16;
  const std::int64_t all = length * std::max<std::int64_t>(config.max_num_seqs, 1);
  return {.context = config.num_kvcache_blocks > 0 ? config.num_kvcache_blocks * block
                                                   : std::min(all, std::max(length, kSharedTokens)),
          .parallel = 1,
          .prefill_tokens = std::max<std::int64_t>(config.max_num_batched_tokens, 0)};
}

// The placement of a model on a machine with GPUs.
void place_on_gpus(const LlmConfig& config, const GpuList& list, models::OpenOptions& options) {
  options.machine.num_gpus = static_cast<int>(list.gpus.size());
  const perf::Workload load = placed_load(config.engine);
  const std::uint64_t memory = config.memory;
  options.make_rules = [=, on_placement = config.on_placement](const plan::Blueprint& blueprint) {
    const perf::AutoRules rules = perf::auto_rules(blueprint, free_machine(list, memory), load);
    if (on_placement) on_placement(rules.summary);
    return rules.text;
  };
  options.adjust_plan = [=](plan::Plan& plan) {
    const perf::MachineFigures machine = free_machine(list, memory);
    perf::resolve_gpu_experts(plan, machine, load);
    perf::set_stream_from(plan, machine);
  };
}

}  // namespace

models::OpenOptions open_options(const LlmConfig& config) {
  models::OpenOptions options;
  options.num_threads = config.num_threads;
  options.cpus = config.cpus;
  options.load = {.repack = config.repack,
                  .repack_cache = config.repack_cache,
                  .on_progress = config.on_load,
                  .on_warning = config.on_warning};
  if (!config.expert_stats.empty()) {
    const std::filesystem::path folder = config.expert_stats.parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder))
      fail(config.expert_stats.string(), ": the folder does not exist");
    options.load.expert_stats = models::read_expert_stats(config.expert_stats);
  }
  options.memory = config.memory;
  options.plugins = config.plugins;
  options.adapters = config.adapters;
  options.kv_cache_dtype = config.kv_cache_dtype;
  options.mmproj = config.mmproj;
  options.tokenizer = config.tokenizer;
  if (config.device != "cpu") {
    const GpuList list = find_gpus(config.device);
    if (!list.gpus.empty()) place_on_gpus(config, list, options);
  }
  options.rules = default_rules(config.device, options.machine.num_gpus);
  if (!config.rules.empty()) {
    const MappedFile file(config.rules);
    options.rules = {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
    options.rules_path = config.rules;
  }
  return options;
}

}  // namespace graft::api
