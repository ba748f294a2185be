#include "graft/ops/profiler.h"

#include <utility>

namespace graft::ops {

void Profiler::add(std::string module, DeviceContext& device, std::size_t begin, std::size_t end) {
  intervals_.push_back(
      {.module = std::move(module), .device = &device, .begin = begin, .end = end});
}

void Profiler::finish_pass() {
  for (const Interval& interval : intervals_) {
    Entry& entry = entries_[interval.module];
    ++entry.calls;
    entry.seconds += interval.device->seconds_between(interval.begin, interval.end);
  }
  for (const Interval& interval : intervals_)
    interval.device->clear_times();
  intervals_.clear();
}

ProfileScope::ProfileScope(const Pass& pass, Device device, const std::string& module)
    : profiler_(pass.profiler), module_(&module) {
  if (profiler_ == nullptr) return;
  device_ = &pass.devices->at(device);
  begin_ = device_->record_time();
}

ProfileScope::~ProfileScope() {
  if (profiler_ != nullptr) profiler_->add(*module_, *device_, begin_, device_->record_time());
}

std::string fused_name(const Pass& pass, std::span<const std::string* const> modules) {
  if (pass.profiler == nullptr || modules.empty()) return {};
  std::string name = *modules.front();
  for (const std::string* module : modules.subspan(1))
    name += "+" + module->substr(module->rfind('.') + 1);
  return name;
}

}  // namespace graft::ops
