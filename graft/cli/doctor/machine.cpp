// graft machine: measures bandwidth and compute speed of the CPU and the GPUs and saves them for
// `graft plan`.

#include "graft/perf/machine.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/parallel.h"
#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/counted.h"
#include "graft/cli/doctor/gpu_table.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/text_file.h"
#include "graft/perf/limits.h"
#include "graft/perf/measure/measure.h"
#include "graft/perf/measure/measure_disk.h"
#include "graft/perf/measure/measure_gpus.h"
#include "graft/tensor/gpus.h"

namespace graft::cli {
namespace {

struct MeasureOptions {
  bool json = false;
  std::size_t threads = 0;
  std::vector<std::string> model_folders = {};
};

// The disk that is measured: that of the first folder of models, else of the current folder.
std::filesystem::path disk_folder(const MeasureOptions& options) {
  for (const std::string& folder : options.model_folders) {
    std::error_code ignored;
    if (std::filesystem::is_directory(folder, ignored)) return folder;
  }
  return ".";
}

void save(const perf::MachineFigures& machine, const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) fail(path.parent_path().string(), ": cannot create the folder: ", error.message());
  write_text_file(path, perf::to_json(machine).dump(2) + '\n');
}

void print_limits(const perf::MachineLimits& limits, const perf::CpuFigures& cpu) {
  fmt::print("cpu        {}, {} of memory\n", counted(cpu.threads, "thread"),
             bytes_text(cpu.dram_bytes));
  fmt::print("  read     {:.1f} GB/s\n", cpu.read_bytes_per_s / 1e9);
  fmt::print("  float32  {:.1f} GFLOP/s, peak {:.1f} GFLOP/s\n", cpu.flops / 1e9,
             limits.f32_flops / 1e9);
  if (limits.int8_ops > 0) fmt::print("  int8     peak {:.1f} GOP/s\n", limits.int8_ops / 1e9);
  fmt::print("  call     {:.1f} us\n", cpu.call_seconds * 1e6);
}

void print_rates(const perf::MachineFigures& machine) {
  fmt::print("  {:<8} {:>18} {:>18}\n", "type", "decode GB/s", "prefill GFLOP/s");
  for (const auto& [dtype, rate] : machine.cpu_rates) {
    fmt::print("  {:<8} {:>18.2f} {:>18.1f}\n", name(dtype), rate.read_bytes_per_s / 1e9,
               rate.flops / 1e9);
  }
}

// The CPU, the disk and the GPUs, one after the other. Without GPU figures `graft plan` still has
// those of the CPU, so a GPU that cannot be measured is only reported.
perf::MachineFigures measure_all(ThreadPool& pool, const std::filesystem::path& folder) {
  perf::MachineFigures machine = perf::measure_machine(pool);
  const perf::MeasuredDisk disk = perf::measure_disk(folder);
  if (!disk.error.empty()) fmt::print(stderr, "the disk is not measured: {}\n", disk.error);
  machine.disk = disk.figures;
  perf::MeasuredGpus measured = perf::measure_gpus(list_gpus());
  if (!measured.error.empty())
    fmt::print(stderr, "no GPU is saved: cannot measure {}\n", measured.error);
  machine.gpus = std::move(measured.gpus);
  return machine;
}

void measure_machine(const MeasureOptions& options) {
  const std::filesystem::path path = perf::machine_file();
  if (path.empty() && !options.json)
    fail("machine: no place to save the figures: set HOME or XDG_CONFIG_HOME, or use --json");
  const auto start = std::chrono::steady_clock::now();
  ThreadPool pool(options.threads);
  if (!options.json) {
    fmt::print(stderr, "measuring with {}, takes 10 to 60 s\n",
               counted(static_cast<std::int64_t>(pool.num_threads()), "thread"));
  }
  const std::filesystem::path folder = disk_folder(options);
  const perf::MachineFigures machine = measure_all(pool, folder);
  if (options.json) {
    fmt::print("{}\n", perf::to_json(machine).dump(2));
    return;
  }
  print_limits(perf::measure_limits(pool), machine.cpu);
  print_rates(machine);
  if (machine.disk.read_bytes_per_s > 0) {
    fmt::print("disk       {}\n  read     {:.2f} GB/s\n", folder.string(),
               machine.disk.read_bytes_per_s / 1e9);
  }
  fmt::print("{}", gpu_table(machine.gpus));
  save(machine, path);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("saved to {} for `graft plan`, took {}\n", path.string(),
             duration_text(elapsed.count()));
}

}  // namespace

void add_machine(Command& app) {
  auto options = std::make_shared<MeasureOptions>();
  Command* command =
      app.add_subcommand("machine", "Measure this machine and save the results for `graft plan`");
  command->add_flag("--json", options->json, "Print the results as JSON instead of saving them");
  command->add_option("-t,--threads", options->threads, "Number of threads (default: one per core)")
      ->check(Range(1, 4096));
  ModelChoice::add_folders_to(*command, options->model_folders);
  command->callback([options] { measure_machine(*options); });
}

}  // namespace graft::cli
