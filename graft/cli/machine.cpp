// graft machine: measures what this machine can do and keeps it for `graft plan`.

#include "graft/plan/machine.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "graft/base/parallel.h"
#include "graft/base/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/rule_options.h"
#include "graft/plan/measure.h"

namespace graft::cli {
namespace {

void save(const plan::MachineFigures& machine, const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  write_text_file(path, plan::to_json(machine).dump(2) + '\n');
}

void measure_machine(bool json, std::size_t threads) {
  ThreadPool pool(threads);
  const plan::MachineFigures machine = plan::measure_machine(pool);
  if (json) {
    fmt::print("{}\n", plan::to_json(machine).dump(2));
    return;
  }
  fmt::print("cpu      {} threads, {} of memory\n", machine.cpu.threads,
             bytes_text(machine.cpu.dram_bytes));
  fmt::print("  read   {:.1f} GB/s\n  float  {:.1f} GFLOP/s\n  call   {:.1f} us\n",
             machine.cpu.read_bytes_per_s / 1e9, machine.cpu.flops / 1e9,
             machine.cpu.call_seconds * 1e6);
  fmt::print("  {:<8} {:>18} {:>18}\n", "type", "one row (GB/s)", "many (GFLOP/s)");
  for (const auto& [dtype, rate] : machine.cpu_rates) {
    fmt::print("  {:<8} {:>18.2f} {:>18.1f}\n", name(dtype), rate.read_bytes_per_s / 1e9,
               rate.flops / 1e9);
  }
  const std::filesystem::path path = plan::machine_file();
  save(machine, path);
  fmt::print("saved in {}\n", path.string());
}

}  // namespace

void add_machine(CLI::App& app) {
  struct Options {
    bool json = false;
    std::size_t threads = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("machine", "Measure this machine and save its figures for `plan`");
  command->add_flag("--json", options->json, "Print the figures as JSON instead of saving them");
  command->add_option("-t,--threads", options->threads, "Threads (default: one per core)")
      ->check(CLI::Range(1, 4096));
  command->callback([options] { measure_machine(options->json, options->threads); });
}

}  // namespace graft::cli
