#include "graft/ops/devices/device_context.h"

#include "graft/base/check.h"
#include "graft/ops/registry.h"

namespace graft::ops {

void DeviceContext::sample(TensorView /*logits*/, Pass& /*pass*/) {
  GRAFT_CHECK(false, to_string(device_), " does not sample");
}

void DeviceContext::sample_kept(const BatchSampling& /*sampling*/) {
  GRAFT_CHECK(false, to_string(device_), " does not sample");
}

void DeviceContext::start_tokens_out(std::int64_t /*num_tokens*/) {
  GRAFT_CHECK(false, to_string(device_), " does not sample");
}

std::span<const std::int32_t> DeviceContext::finish_tokens_out() {
  GRAFT_CHECK(false, to_string(device_), " does not sample");
  return {};
}

std::size_t DeviceContext::record_time() {
  times_.push_back(std::chrono::steady_clock::now());
  return times_.size() - 1;
}

double DeviceContext::seconds_between(std::size_t begin, std::size_t end) {
  return std::chrono::duration<double>(times_[end] - times_[begin]).count();
}

DeviceContext& PassDevices::at(Device device) {
  std::unique_ptr<DeviceContext>& context = contexts_[device];
  if (context == nullptr) context = registry_.make_device_context(device);
  return *context;
}

void PassDevices::begin_pass(const Batch& batch) {
  for (const auto& [device, context] : contexts_)
    context->begin_pass(batch);
}

std::map<Device, std::size_t> PassDevices::workspace_bytes() const {
  std::map<Device, std::size_t> bytes;
  for (const auto& [device, context] : contexts_) {
    bytes[device] += context->workspace().peak_bytes();
    bytes[kCpu] += context->staging().peak_bytes();
  }
  return bytes;
}

void PassDevices::copy(TensorView from, TensorView to) {
  GRAFT_CHECK(from.bytes() == to.bytes(), "copy of ", from.bytes(), " bytes to ", to.bytes());
  if (from.device == kCpu) return at(to.device).copy_in(from, to);
  DeviceContext& source = at(from.device);
  if (to.device == kCpu) {
    source.start_copy_out(from, to);
    return source.finish_copies_out();
  }
  const Workspace::Scope scope(source.staging());
  const TensorView between = source.staging().allocate(from.dtype, {from.rows(), from.cols()});
  copy(from, between);
  DeviceContext& destination = at(to.device);
  destination.copy_in(between, to);
  // The next copy from the source uses the same staging memory.
  destination.finish_copies_in();
}

Pass on(Device device, const Pass& pass) {
  GRAFT_CHECK(pass.devices != nullptr, "the pass has no device contexts, requested ",
              to_string(device));
  return with(pass, pass.batch, pass.devices->at(device).workspace());
}

}  // namespace graft::ops
