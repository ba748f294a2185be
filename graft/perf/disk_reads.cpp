#include "graft/perf/disk_reads.h"

#include <algorithm>

#include <fmt/format.h>

namespace graft::perf {
namespace {

bool is_on_cpu(const plan::Placement& placement, ops::Phase phase) {
  return placement.running(phase).device() == kCpu;
}

double expert_bytes(const plan::Plan& plan) {
  double bytes = 0;
  for (const plan::Placement& placement : plan.placements) {
    if (placement.module->role == ops::Role::Experts && is_on_cpu(placement, ops::Phase::Decode))
      bytes += static_cast<double>(placement.weight_bytes);
  }
  return bytes;
}

}  // namespace

DiskReads::DiskReads(const plan::Plan& plan, const MemoryUse& cpu) {
  if (cpu.fits()) return;
  const double room = static_cast<double>(cpu.capacity - std::min(cpu.capacity, cpu.allocated()));
  const double experts = std::min(expert_bytes(plan), static_cast<double>(cpu.mapped));
  const double dense = static_cast<double>(cpu.mapped) - experts;
  // The system drops the least recently used pages: of weights that are read in a cycle and do not
  // fit, the next one is always the one that was dropped.
  missing_dense_ = dense <= room ? 0 : 1;
  const double room_for_experts = std::max(0.0, room - dense);
  missing_experts_ = experts > 0 ? 1 - std::min(1.0, room_for_experts / experts) : 0;
}

double DiskReads::bytes(const plan::Plan& plan, const PassSize& pass) const {
  double bytes = 0;
  for (const plan::Placement& placement : plan.placements) {
    if (!is_on_cpu(placement, pass.phase)) continue;
    const double read = module_work(plan, placement, pass).weight_bytes;
    const bool is_experts = placement.module->role == ops::Role::Experts;
    bytes += read * (is_experts ? missing_experts_ : missing_dense_);
  }
  return bytes;
}

void DiskReads::add_to(PhaseEstimate& phase,
                       const plan::Plan& plan,
                       const MachineFigures& machine,
                       const PassSize& pass) const {
  const double seconds = bytes(plan, pass) / disk_read_bytes_per_s(machine);
  if (seconds <= 0 || phase.tokens_per_s <= 0) return;
  const double total = pass.rows / phase.tokens_per_s + seconds;
  phase.tokens_per_s = pass.rows / total;
  phase.seconds["disk"] = seconds;
  const auto longest =
      std::ranges::max_element(phase.seconds, {}, [](const auto& row) { return row.second; });
  phase.limit =
      fmt::format("{} ({:.0f} % of the time)", longest->first, 100 * longest->second / total);
}

}  // namespace graft::perf
