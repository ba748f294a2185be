// What a machine can do, in numbers: measured here by `graft machine`, or written down for a
// machine that one thinks of buying. Kept as JSON; docs/machines.md explains the keys.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/tensor/dtype.h"

namespace graft::perf {

struct CpuFigures {
  int threads = 1;
  std::uint64_t dram_bytes = 0;
  double read_bytes_per_s = 0;  // all threads
  double flops = 0;             // float32, all threads
  double call_seconds = 0;  // of an operator beside its bytes and arithmetic: threads wake, wait
};

struct GpuFigures {
  std::string name;
  std::uint64_t vram_bytes = 0;
  double read_bytes_per_s = 0;
  double flops = 0;  // dense, 16-bit
  double pcie_bytes_per_s = 0;
};

// What this build's operators reach with weights of one type, as opposed to what the machine could.
struct OperatorRate {
  double read_bytes_per_s = 0;  // weight bytes, one row: generating
  double flops = 0;             // many rows: prefill
};

struct MachineFigures {
  std::string name;
  CpuFigures cpu;
  std::vector<GpuFigures> gpus;
  std::map<DType, OperatorRate> cpu_rates;  // empty: only the limits are known
};

Json to_json(const MachineFigures& machine);
// Throws Error (subject: `where`) naming every key that is unknown, missing or of no sense.
MachineFigures machine_from_json(const Json& json, const std::string& where);

// Where `graft machine` keeps its figures: $XDG_CONFIG_HOME/graft/machine.json or under ~/.config.
std::filesystem::path machine_file();

// Figures of this machine's size with speeds of a middling one, for when nothing was measured.
MachineFigures assumed_machine();

}  // namespace graft::perf
