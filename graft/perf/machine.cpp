#include "graft/perf/machine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/base/system/cpus.h"

namespace graft::perf {
namespace {

constexpr double kFlopsPerThread = 40e9;  // AVX2 at 3 GHz
constexpr double kAssumedDiskRead = 3e9;  // data sheets of NVMe drives: 3 to 7 GB/s

// Reads one JSON object and collects every missing, unknown or invalid key in `problems`.
class Reader {
 public:
  Reader(const Json& json, std::string path, std::vector<std::string>& problems)
      : json_(json), path_(std::move(path)), problems_(problems) {
    if (!json_.is_object()) problem(path_ + " must be an object");
  }

  double positive(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0) {
      problem(path_ + key + " is " + value->dump() + ", expected a number above 0");
      return 0;
    }
    return value->get<double>();
  }
  // 0 when the key is missing.
  double optional_positive(const char* key) {
    return find(key, false) == nullptr ? 0 : positive(key);
  }
  std::uint64_t bytes(const char* key) {
    const double value = positive(key);
    if (value >= 1e18) problem(path_ + key + " is too large (max 1e18)");
    return value >= 1e18 ? 0 : static_cast<std::uint64_t>(value);
  }
  std::string text(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return "";
    if (!value->is_string()) {
      problem(path_ + key + " must be a string");
      return "";
    }
    return value->get<std::string>();
  }
  const Json* find(const char* key, bool required = true) {
    known_.emplace_back(key);
    const auto found = json_.is_object() ? json_.find(key) : json_.end();
    if (json_.is_object() && found != json_.end()) return &*found;
    if (required) problem(path_ + key + " is missing");
    return nullptr;
  }
  void refuse_unknown_keys() {
    if (!json_.is_object()) return;
    for (const auto& item : json_.items()) {
      if (std::ranges::find(known_, item.key()) == known_.end())
        problem(path_ + item.key() + " is unknown");
    }
  }

 private:
  void problem(std::string text) { problems_.push_back(std::move(text)); }

  const Json& json_;
  std::string path_;
  std::vector<std::string>& problems_;
  std::vector<std::string> known_;
};

CpuFigures read_cpu(const Json& json, std::vector<std::string>& problems) {
  Reader reader(json, "cpu.", problems);
  CpuFigures cpu;
  cpu.threads = static_cast<int>(std::min(reader.positive("threads"), 1e5));
  cpu.dram_bytes = reader.bytes("dram_bytes");
  cpu.read_bytes_per_s = reader.positive("read_bytes_per_s");
  cpu.flops = reader.positive("flops");
  cpu.call_seconds = reader.optional_positive("call_seconds");
  reader.refuse_unknown_keys();
  return cpu;
}

GpuFigures read_gpu(const Json& json, const std::string& path, std::vector<std::string>& problems) {
  Reader reader(json, path, problems);
  GpuFigures gpu;
  gpu.name = reader.text("name");
  gpu.vram_bytes = reader.bytes("vram_bytes");
  gpu.read_bytes_per_s = reader.positive("read_bytes_per_s");
  gpu.flops = reader.positive("flops");
  gpu.pcie_bytes_per_s = reader.positive("pcie_bytes_per_s");
  gpu.pcie_back_bytes_per_s = reader.optional_positive("pcie_back_bytes_per_s");
  gpu.launch_seconds = reader.optional_positive("launch_seconds");
  reader.refuse_unknown_keys();
  return gpu;
}

void read_rates(const Json& json, MachineFigures& machine, std::vector<std::string>& problems) {
  if (!json.is_object()) {
    problems.emplace_back("cpu_rates must be an object");
    return;
  }
  for (const auto& item : json.items()) {
    const auto dtype = dtype_from_name(item.key());
    if (!dtype) {
      problems.push_back("cpu_rates." + item.key() + " is not a type name");
      continue;
    }
    Reader reader(item.value(), "cpu_rates." + item.key() + ".", problems);
    machine.cpu_rates[*dtype] = {.read_bytes_per_s = reader.positive("read_bytes_per_s"),
                                 .flops = reader.positive("flops")};
    reader.refuse_unknown_keys();
  }
}

Json to_json(const GpuFigures& gpu) {
  Json json = {{"name", gpu.name},
               {"vram_bytes", gpu.vram_bytes},
               {"read_bytes_per_s", gpu.read_bytes_per_s},
               {"flops", gpu.flops},
               {"pcie_bytes_per_s", gpu.pcie_bytes_per_s}};
  if (gpu.pcie_back_bytes_per_s > 0) json["pcie_back_bytes_per_s"] = gpu.pcie_back_bytes_per_s;
  if (gpu.launch_seconds > 0) json["launch_seconds"] = gpu.launch_seconds;
  return json;
}

}  // namespace

double disk_read_bytes_per_s(const MachineFigures& machine) {
  return machine.disk.read_bytes_per_s > 0 ? machine.disk.read_bytes_per_s : kAssumedDiskRead;
}

Json to_json(const MachineFigures& machine) {
  Json json = {{"name", machine.name},
               {"cpu",
                {{"threads", machine.cpu.threads},
                 {"dram_bytes", machine.cpu.dram_bytes},
                 {"read_bytes_per_s", machine.cpu.read_bytes_per_s},
                 {"flops", machine.cpu.flops}}},
               {"gpus", Json::array()},
               {"cpu_rates", Json::object()}};
  if (machine.cpu.call_seconds > 0) json["cpu"]["call_seconds"] = machine.cpu.call_seconds;
  if (machine.disk.read_bytes_per_s > 0)
    json["disk"] = {{"read_bytes_per_s", machine.disk.read_bytes_per_s}};
  for (const GpuFigures& gpu : machine.gpus)
    json["gpus"].push_back(to_json(gpu));
  for (const auto& [dtype, rate] : machine.cpu_rates) {
    json["cpu_rates"][std::string(name(dtype))] = {{"read_bytes_per_s", rate.read_bytes_per_s},
                                                   {"flops", rate.flops}};
  }
  return json;
}

MachineFigures machine_from_json(const Json& json, const std::string& where) {
  std::vector<std::string> problems;
  MachineFigures machine;
  Reader reader(json, "", problems);
  machine.name = reader.text("name");
  if (const Json* cpu = reader.find("cpu")) machine.cpu = read_cpu(*cpu, problems);
  if (const Json* gpus = reader.find("gpus", false); gpus != nullptr && gpus->is_array()) {
    for (std::size_t i = 0; i < gpus->size(); ++i)
      machine.gpus.push_back(read_gpu((*gpus)[i], "gpus[" + std::to_string(i) + "].", problems));
  } else if (gpus != nullptr) {
    problems.emplace_back("gpus must be a list");
  }
  if (const Json* disk = reader.find("disk", false)) {
    Reader figures(*disk, "disk.", problems);
    machine.disk.read_bytes_per_s = figures.positive("read_bytes_per_s");
    figures.refuse_unknown_keys();
  }
  if (const Json* rates = reader.find("cpu_rates", false)) read_rates(*rates, machine, problems);
  reader.refuse_unknown_keys();
  machine.cpu_source = where;
  if (!machine.gpus.empty()) machine.gpu_source = where;
  if (problems.empty()) return machine;
  std::string all;
  for (const std::string& problem : problems)
    all += (all.empty() ? "" : "; ") + problem;
  fail(where, ": ", all);
}

std::filesystem::path machine_file() {
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config != '\0')
    return std::filesystem::path(config) / "graft" / "machine.json";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return std::filesystem::path(home) / ".config" / "graft" / "machine.json";
}

MachineFigures assumed_machine() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto threads = static_cast<int>(one_per_core(usable_cpus()).size());
  // Two channels of DDR4: within a small factor of most machines.
  return {.name = "assumed (run `graft machine` to measure)",
          .cpu = {.threads = threads,
                  .dram_bytes = usable_memory(pages * page, cgroup_limits()),
                  .read_bytes_per_s = 30e9,
                  .flops = kFlopsPerThread * threads},
          .gpus = {},
          .disk = {},
          .cpu_rates = {},
          .cpu_source = "this machine's CPU, speeds assumed (`graft machine` measures them)"};
}

MachineFigures this_machine() {
  const std::filesystem::path saved = machine_file();
  if (saved.empty() || !std::filesystem::exists(saved)) return assumed_machine();
  MachineFigures machine = machine_from_json(read_json_file(saved), saved.string());
  machine.cpu.dram_bytes = usable_memory(machine.cpu.dram_bytes, cgroup_limits());
  machine.cpu_source = "this machine's CPU, measured";
  return machine;
}

void assume_cpu(MachineFigures& machine, double read_bytes_per_s, int threads) {
  CpuFigures& cpu = machine.cpu;
  if (read_bytes_per_s > 0) cpu.read_bytes_per_s = read_bytes_per_s;
  if (threads > 0) {
    cpu.threads = threads;
    cpu.flops = kFlopsPerThread * threads;
  }
  machine.cpu_rates.clear();
  machine.cpu_source =
      fmt::format("assumed, {} threads and {:.1f} GB/s", cpu.threads, cpu.read_bytes_per_s / 1e9);
}

std::uint64_t usable_memory(std::uint64_t installed, const CgroupLimits& limits) {
  return limits.memory_bytes == 0 ? installed : std::min(installed, limits.memory_bytes);
}

}  // namespace graft::perf
