#include "graft/kernels/cpu/table.h"

#include <cstddef>
#include <cstdlib>
#include <vector>

#include "graft/kernels/cpu/isa/isa_level.h"

namespace graft::kernels::cpu {
namespace {

std::vector<const KernelTable*> find_runnable() {
  const CpuFeatures features = cpu_features();
  std::vector<const KernelTable*> found;
  for (std::size_t i = 0; i < isa_levels().size(); ++i) {
    if (missing_feature(isa_levels()[i].level, features).empty())
      found.push_back(&level_tables()[i]);
  }
  return found;
}

const KernelTable& table_of(IsaLevel level) {
  std::size_t i = 0;
  while (isa_levels()[i].level != level)
    ++i;
  return level_tables()[i];
}

}  // namespace

const KernelTable& kernels() {
  static const KernelTable& selected = [&]() -> const KernelTable& {
    const char* name = std::getenv("GRAFT_CPU_ISA");
    return table_of(choose_level(name == nullptr ? "" : name, cpu_features()));
  }();
  return selected;
}

std::span<const KernelTable* const> runnable_kernels() {
  static const std::vector<const KernelTable*> runnable = find_runnable();
  return runnable;
}

}  // namespace graft::kernels::cpu
