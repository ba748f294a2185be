#include "graft/ops/device_state.h"

#include <cstring>

#include "graft/base/check.h"
#include "graft/ops/registry.h"
#include "graft/ops/workers.h"

namespace graft::ops {
namespace {

class CpuState final : public DeviceState {
 public:
  explicit CpuState(Device device) : DeviceState(device) {}

  void add(TensorView x, TensorView y, Pass& pass) override {
    for_each_item(pass.pool, x.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      float* sum = x.f32_row(row);
      const float* more = y.f32_row(row);
      for (std::int64_t i = 0; i < x.cols(); ++i)
        sum[i] += more[i];
    });
  }

  void gather(TensorView x,
              std::span<const std::int32_t> rows,
              TensorView picked,
              Pass& /*pass*/) override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::memcpy(picked.f32_row(static_cast<std::int64_t>(i)), x.f32_row(rows[i]),
                  static_cast<std::size_t>(x.cols()) * sizeof(float));
    }
  }

  void copy_in(TensorView from, TensorView to) override {
    std::memcpy(to.data, from.data, from.bytes());
  }
  void start_copy_out(TensorView from, TensorView to) override { copy_in(from, to); }
  void finish_copies_out() override {}
};

}  // namespace

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

std::unique_ptr<DeviceState> make_cpu_state(Device device) {
  return std::make_unique<CpuState>(device);
}

}  // namespace graft::ops
