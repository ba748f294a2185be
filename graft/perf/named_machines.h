// Machines that `graft plan --machine NAME` knows, for people who do not own one yet. Speeds of
// memory are 80 % of the data sheet's; nothing is measured.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graft/perf/machine.h"

namespace graft::perf {

struct NamedMachine {
  std::string_view name;
  std::string_view summary;
  int cores;
  double dram_gib;
  double memory_gb_per_s;  // of the data sheet: channels x transfers x 8 bytes
  std::string_view gpu;    // a name for published_gpu(); empty: none
  int num_gpus;
  double vram_gib;
};

std::span<const NamedMachine> named_machines();
// nullopt for an unknown name.
std::optional<MachineFigures> machine_by_name(std::string_view name);

}  // namespace graft::perf
