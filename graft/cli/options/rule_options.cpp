#include "graft/cli/options/rule_options.h"

#include <charconv>
#include <cmath>
#include <fstream>
#include <system_error>

#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"
#include "graft/models/make_blueprint.h"
#include "graft/plan/default_rules.h"
#include "graft/plan/plugins.h"
#include "graft/tensor/gpus.h"

namespace graft::cli {
namespace {

// Assumed speeds of a GPU that is not in this machine: a mid-range one on PCIe 4.
perf::GpuFigures assumed_gpu() {
  return {.name = "assumed",
          .vram_bytes = std::uint64_t{24} << 30U,
          .read_bytes_per_s = 900e9,
          .flops = 120e12,
          .pcie_bytes_per_s = 25e9};
}

perf::MachineFigures base_figures(const std::string& file) {
  if (!file.empty()) return perf::machine_from_json(read_json_file(file), file);
  const std::filesystem::path measured = perf::machine_file();
  if (std::filesystem::exists(measured))
    return perf::machine_from_json(read_json_file(measured), measured.string());
  return perf::assumed_machine();
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void write_text_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path partial = path.string() + ".partial";
  std::error_code error;
  {
    std::ofstream out(partial, std::ios::binary);
    out << text;
    out.close();
    if (!out) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(partial, path, error);
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(partial, ignored);
  fail(path.string(), ": cannot write: ", error.message());
}

std::uint64_t parse_bytes(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  if (unit.ends_with("iB")) unit.remove_suffix(2);
  if (unit.ends_with('B')) unit.remove_suffix(1);
  constexpr std::string_view kUnits = "KMGTP";
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit[0]) + 1;
  const bool bad_unit = unit.size() > 1 || (!unit.empty() && power == 0);
  if (error != std::errc() || bad_unit || !std::isfinite(value) || value < 0)
    fail("\"", text, "\": not a size like 24G, 512M or 1.5T");
  const double bytes = value * std::pow(1024.0, static_cast<double>(power));
  if (bytes >= 9e18) fail("\"", text, "\": size is too large");
  return static_cast<std::uint64_t>(bytes);
}

void PluginOptions::add_to(Command& command) {
  command.add_option("--plugin", libraries, "Library with operators; repeatable")
      ->option_text("LIB.so")
      ->allow_extra_args(false);
}

void MachineOptions::add_to(Command& command) {
  command.add_option("--gpus", gpus, "Number of GPUs (default: as in this machine)")
      ->check(Range(0, 64));
  command.add_option("--vram", vram, "Memory per GPU, e.g. 24G");
  command.add_option("--dram", dram, "Host memory, e.g. 512G");
  command
      .add_option("--machine", file,
                  "JSON file with the measurements of another machine (`graft machine --json`)")
      ->excludes("--gpus");
}

perf::MachineFigures MachineOptions::figures() const {
  perf::MachineFigures machine = base_figures(file);
  // --vram without --gpus means one GPU.
  const int count = gpus >= 0 ? gpus : !vram.empty() && machine.gpus.empty() ? 1 : -1;
  if (count >= 0) machine.gpus.resize(static_cast<std::size_t>(count), assumed_gpu());
  if (!vram.empty()) {
    for (perf::GpuFigures& gpu : machine.gpus)
      gpu.vram_bytes = parse_bytes(vram);
  }
  if (!dram.empty()) machine.cpu.dram_bytes = parse_bytes(dram);
  return machine;
}

PlannedModel::PlannedModel(const std::filesystem::path& model,
                           const std::string& rules,
                           const PluginOptions& plugins,
                           const plan::Machine& machine,
                           std::uint64_t gpu_bytes)
    : source_(models::open_checkpoint(model)),
      blueprint_(models::make_blueprint(*source_)),
      registry_(ops::builtin_operators()) {
  std::uint64_t bytes = 0;
  for (const formats::TensorInfo& tensor : source_->tensors())
    bytes += tensor.data.size();
  const std::filesystem::path path = rules.empty()
                                         ? plan::default_rules(blueprint_.family, machine.num_gpus,
                                                               plan::fits_gpu(bytes, gpu_bytes))
                                         : std::filesystem::path(rules);
  std::vector<plan::Finding> findings;
  rules_ = plan::read_rules(path, findings);
  plan::load_plugins(plugins.paths(), rules_, registry_, findings);
  result_ = plan::make_plan(blueprint_, rules_, registry_, machine);
  result_.findings.insert(result_.findings.begin(), findings.begin(), findings.end());
  plan::sort_findings(result_.findings);
}

}  // namespace graft::cli
