// Time per module name, summed over passes, when profiling is on.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "graft/ops/pass.h"

namespace graft::ops {

class Profiler {
 public:
  struct Entry {
    std::int64_t calls = 0;
    double seconds = 0;  // children included
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }
  void add(const std::string& module, double seconds);
  void clear() { entries_.clear(); }

 private:
  std::map<std::string, Entry> entries_;
};

// Measures its own lifetime for `module`; costs nothing when the pass is not profiled.
class ProfileScope {
 public:
  ProfileScope(const Pass& pass, const std::string& module);
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;
  ~ProfileScope();

 private:
  Profiler* profiler_;
  const std::string* module_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace graft::ops
