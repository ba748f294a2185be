// What a plan costs: bytes in each memory, and how fast it should run with the reason why not
// faster.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graft/perf/machine.h"
#include "graft/plan/plan.h"

namespace graft::perf {

struct Load {
  std::int64_t context = 4096;  // tokens of each sequence
  std::int64_t parallel = 1;    // sequences at once
  std::int64_t prefill_tokens = 512;
};

struct MemoryUse {
  std::uint64_t weights = 0;
  std::uint64_t kv_cache = 0;
  std::uint64_t workspace = 0;
  std::uint64_t capacity = 0;  // 0: unknown

  std::uint64_t total() const { return weights + kv_cache + workspace; }
  bool fits() const { return capacity == 0 || total() <= capacity; }
};

struct Speed {
  double tokens_per_s = 0;
  std::string limit;                      // "cpu memory: 12.3 of 15.0 ms per token"
  std::map<std::string, double> seconds;  // by resource, per token or per prefill
};

struct Estimate {
  std::map<Device, MemoryUse> devices;
  Speed generate;  // of all sequences together
  Speed prefill;

  bool fits() const;
};

Estimate estimate(const plan::Plan& plan, const MachineFigures& machine, const Load& load);

// A rule file that puts on the GPUs what gains most there: attention, shared experts, norms,
// routers and the KV cache first, then dense MLPs and the head, then whole layers of experts by
// gain per byte. Throws Error when not even attention and KV cache of one layer fit.
std::string auto_rules(const plan::Blueprint& blueprint,
                       const MachineFigures& machine,
                       const Load& load);

}  // namespace graft::perf
