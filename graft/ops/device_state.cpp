#include "graft/ops/device_state.h"

#include "graft/base/check.h"
#include "graft/ops/registry.h"

namespace graft::ops {
DeviceState& PassDevices::at(Device device) {
  std::unique_ptr<DeviceState>& state = states_[device];
  if (state == nullptr) state = registry_.make_device_state(device);
  return *state;
}

void PassDevices::begin_pass(const Batch& batch) {
  for (const auto& [device, state] : states_)
    state->begin_pass(batch);
}

void PassDevices::copy(TensorView from, TensorView to) {
  GRAFT_CHECK(from.bytes() == to.bytes(), from.bytes(), " bytes to ", to.bytes());
  if (from.device == kCpu) return at(to.device).copy_in(from, to);
  DeviceState& source = at(from.device);
  if (to.device == kCpu) {
    source.start_copy_out(from, to);
    return source.finish_copies_out();
  }
  const Workspace::Scope scope(source.staging());
  const TensorView between = source.staging().take(from.dtype, {from.rows(), from.cols()});
  copy(from, between);
  at(to.device).copy_in(between, to);
}

Pass on(Device device, const Pass& pass) {
  GRAFT_CHECK(pass.devices != nullptr, "a pass without devices goes to ", to_string(device));
  return {.batch = pass.batch,
          .phase = pass.phase,
          .pool = pass.pool,
          .workspace = pass.devices->at(device).workspace(),
          .profiler = pass.profiler,
          .devices = pass.devices};
}

}  // namespace graft::ops
