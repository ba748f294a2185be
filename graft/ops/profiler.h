// Time per module, summed over passes. Timestamps are taken by the device that runs the module
// (CUDA events on a GPU), so profiling neither waits nor selects other code.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graft/ops/devices/device_context.h"
#include "graft/ops/pass.h"

namespace graft::ops {

class Profiler {
 public:
  struct Entry {
    std::int64_t calls = 0;
    double seconds = 0;  // children included
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }

  // Two timestamps of a device; finish_pass() reads their difference.
  void add(std::string module, DeviceContext& device, std::size_t begin, std::size_t end);
  // Waits for the devices of the pass and adds its times to entries().
  void finish_pass();

 private:
  struct Interval {
    std::string module;
    DeviceContext* device = nullptr;
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  std::map<std::string, Entry> entries_;
  std::vector<Interval> intervals_;  // of the pass
};

// Times its own lifetime as `module` on `device`; does nothing when the pass is not profiled.
class ProfileScope {
 public:
  ProfileScope(const Pass& pass, Device device, const std::string& module);
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;
  ~ProfileScope();

 private:
  Profiler* profiler_;
  DeviceContext* device_ = nullptr;
  const std::string* module_;
  std::size_t begin_ = 0;
};

// The name under which a fused primitive is timed: "layer.q_proj" and "layer.k_proj" are
// "layer.q_proj+k_proj". Empty when the pass is not profiled.
std::string fused_name(const Pass& pass, std::span<const std::string* const> modules);

}  // namespace graft::ops
