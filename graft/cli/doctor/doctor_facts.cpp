#include "graft/cli/doctor/doctor_facts.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include "graft/api/catalog.h"
#include "graft/base/error.h"
#include "graft/base/parallel.h"
#include "graft/base/system/cgroup.h"
#include "graft/base/system/cpus.h"
#include "graft/base/system/install_paths.h"
#include "graft/base/system/system.h"
#include "graft/base/text/units.h"
#include "graft/kernels/cpu/isa/isa_level.h"
#include "graft/kernels/cpu/table.h"
#include "graft/perf/limits.h"
#include "graft/perf/machine.h"
#include "graft/plan/rules/default_rules.h"
#include "graft/tensor/cuda_toolkit.h"
#include "graft/tensor/gpus.h"
#include "graft/version.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::pair<std::string, bool>> features() {
  const kernels::cpu::CpuFeatures present = kernels::cpu::cpu_features();
  std::vector<std::pair<std::string, bool>> found;
  for (const kernels::cpu::Feature& feature : kernels::cpu::reported_features())
    found.emplace_back(feature.name, present.*feature.is_present);
  return found;
}

// The lowest instruction set level that the CPU does not support, and the feature it lacks.
void find_next_isa(CpuFacts& facts) {
  const kernels::cpu::CpuFeatures present = kernels::cpu::cpu_features();
  for (const kernels::cpu::LevelName& row : kernels::cpu::isa_levels()) {
    const std::string_view missing = kernels::cpu::missing_feature(row.level, present);
    if (missing.empty()) continue;
    facts.next_isa = row.name;
    facts.next_isa_needs = missing;
    return;
  }
}

CpuFacts cpu_facts() {
  CpuFacts facts;
  facts.name = cpu_name();
  facts.features = features();
  if (const char* forced = std::getenv("GRAFT_CPU_ISA"); forced != nullptr)
    facts.forced_isa = forced;
  facts.best_isa = kernels::cpu::runnable_kernels().back()->isa;
  find_next_isa(facts);
  try {
    facts.isa = kernels::cpu::kernels().isa;
  } catch (const Error& error) {
    facts.isa_error = error.what();
  }
  const std::vector<LogicalCpu> cpus = usable_cpus();
  facts.num_cores = static_cast<int>(one_per_core(cpus).size());
  facts.num_logical_cpus = static_cast<int>(cpus.size());
  facts.num_in_machine = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  facts.num_numa_nodes = static_cast<int>(num_numa_nodes(cpus));
  facts.limit = cgroup_limits().cpus;
  facts.load = load_average();
  return facts;
}

MemoryFacts memory_facts(bool can_measure) {
  MemoryFacts facts = {.total_bytes = total_memory(),
                       .available_bytes = available_memory(),
                       .limit_bytes = cgroup_limits().memory_bytes,
                       .huge_pages = large_page_setting()};
  if (!can_measure) return facts;
  ThreadPool pool;
  try {
    facts.read_bytes_per_s = perf::measure_read_bandwidth(pool);
  } catch (const Error&) {
    facts.read_bytes_per_s = 0;  // too little memory to measure
  }
  return facts;
}

// libgraft.so, or the program when the modules are linked statically.
fs::path own_file() {
  std::error_code error;
  const fs::path library = executable_dir() / str("libgraft.so.", GRAFT_VERSION);
  return fs::exists(library, error) ? library : fs::path("/proc/self/exe");
}

SavedFacts saved_facts() {
  const fs::path path = perf::machine_file();
  SavedFacts facts = {.path = path.string()};
  std::error_code error;
  facts.exists = fs::exists(path, error);
  if (!facts.exists) return facts;
  const auto saved_at = fs::last_write_time(path, error);
  const auto built_at = fs::last_write_time(fs::canonical(own_file(), error), error);
  facts.older_than_program = !error && saved_at < built_at;
  try {
    const perf::MachineFigures figures =
        perf::machine_from_json(read_json_file(path), path.string());
    facts.threads = figures.cpu.threads;
    facts.read_bytes_per_s = figures.cpu.read_bytes_per_s;
  } catch (const Error& problem) {
    facts.error = problem.what();
  }
  return facts;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Display and compute devices with PCI vendor id 10de.
int num_nvidia_devices() {
  std::error_code error;
  int count = 0;
  for (const auto& device : fs::directory_iterator("/sys/bus/pci/devices", error)) {
    const bool is_display = first_line(device.path() / "class").starts_with("0x03");
    if (is_display && first_line(device.path() / "vendor") == "0x10de") ++count;
  }
  return count;
}

GpuFacts gpu_facts() {
  const GpuList list = list_gpus();
  std::error_code error;
  GpuFacts facts = {.gpus = {},
                    .unavailable = list.unavailable,
                    .built_with_cuda = built_with_cuda(),
                    .num_devices = num_nvidia_devices(),
                    .driver = first_line("/sys/module/nvidia/version"),
                    .driver_cuda = driver_cuda_version(),
                    .toolkit_cuda = cuda_toolkit_version(),
                    .has_device_file = fs::exists("/dev/nvidiactl", error)};
  for (const cuda_abi::DeviceProperties& gpu : list.gpus) {
    facts.gpus.push_back(str(gpu.name, ", ", bytes_text(gpu.free_bytes), " of ",
                             bytes_text(gpu.total_bytes), " free"));
  }
  return facts;
}

ResourceFacts rule_facts() {
  ResourceFacts facts;
  try {
    plan::default_rules("", 0);
    const fs::path folder = plan::rules_folder();
    facts.path = folder.string();
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      facts.count += entry.path().extension() == ".yaml" ? 1 : 0;
  } catch (const Error& error) {
    facts.error = error.what();
  } catch (const fs::filesystem_error& error) {
    facts.error = error.what();
  }
  return facts;
}

ResourceFacts model_facts() {
  ResourceFacts facts;
  try {
    facts.path = api::Catalog().find("").string();
    facts.count = 1;
  } catch (const Error& error) {
    facts.error = error.what();
  }
  return facts;
}

Json resource_json(const ResourceFacts& facts) {
  return {{"path", facts.path}, {"count", facts.count}, {"error", facts.error}};
}

Json cpu_json(const CpuFacts& facts) {
  Json json = {{"name", facts.name},
               {"isa", facts.isa},
               {"isa_error", facts.isa_error},
               {"forced_isa", facts.forced_isa},
               {"best_isa", facts.best_isa},
               {"next_isa", facts.next_isa},
               {"next_isa_needs", facts.next_isa_needs},
               {"cores", facts.num_cores},
               {"processors", facts.num_logical_cpus},
               {"processors_in_machine", facts.num_in_machine},
               {"memory_nodes", facts.num_numa_nodes},
               {"limit", facts.limit},
               {"load", facts.load}};
  for (const auto& [feature, present] : facts.features)
    json["features"][feature] = present;
  return json;
}

}  // namespace

Facts gather_facts() {
  Facts facts;
  facts.cpu = cpu_facts();
  facts.memory = memory_facts(!facts.cpu.isa.empty());
  facts.saved = saved_facts();
  facts.gpus = gpu_facts();
  facts.rules = rule_facts();
  facts.model = model_facts();
  facts.host = gather_host_facts();
  return facts;
}

Json to_json(const Facts& facts) {
  return {{"processor", cpu_json(facts.cpu)},
          {"memory",
           {{"total_bytes", facts.memory.total_bytes},
            {"available_bytes", facts.memory.available_bytes},
            {"limit_bytes", facts.memory.limit_bytes},
            {"large_pages", facts.memory.huge_pages},
            {"read_bytes_per_s", facts.memory.read_bytes_per_s}}},
          {"saved_figures",
           {{"path", facts.saved.path},
            {"exists", facts.saved.exists},
            {"error", facts.saved.error},
            {"older_than_program", facts.saved.older_than_program},
            {"threads", facts.saved.threads},
            {"read_bytes_per_s", facts.saved.read_bytes_per_s}}},
          {"gpus",
           {{"list", facts.gpus.gpus},
            {"unavailable", facts.gpus.unavailable},
            {"built_with_cuda", facts.gpus.built_with_cuda},
            {"nvidia_devices", facts.gpus.num_devices},
            {"driver", facts.gpus.driver},
            {"driver_cuda", facts.gpus.driver_cuda},
            {"toolkit_cuda", facts.gpus.toolkit_cuda},
            {"device_file", facts.gpus.has_device_file}}},
          {"rules", resource_json(facts.rules)},
          {"model", resource_json(facts.model)},
          {"system", to_json(facts.host)}};
}

}  // namespace graft::cli
