#include "graft/ops/profiler.h"

namespace graft::ops {

void Profiler::add(const std::string& module, double seconds) {
  Entry& entry = entries_[module];
  ++entry.calls;
  entry.seconds += seconds;
}

ProfileScope::ProfileScope(const Pass& pass, const std::string& module)
    : profiler_(pass.profiler), module_(&module) {
  if (profiler_ != nullptr) start_ = std::chrono::steady_clock::now();
}

ProfileScope::~ProfileScope() {
  if (profiler_ == nullptr) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  profiler_->add(*module_, elapsed.count());
}

}  // namespace graft::ops
