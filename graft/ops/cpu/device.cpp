#include <cstring>

#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/devices/device_context.h"

namespace graft::ops::cpu {
namespace {

class CpuContext final : public DeviceContext {
 public:
  explicit CpuContext(Device device) : DeviceContext(device) {}

  void add(TensorView x, TensorView y, Pass& pass) override {
    for_each_item(pass.pool, x.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      float* sum = x.f32_row(row);
      const float* addend = y.f32_row(row);
      for (std::int64_t i = 0; i < x.cols(); ++i)
        sum[i] += addend[i];
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
    if (from.bytes() != 0) std::memcpy(to.data, from.data, from.bytes());
  }
  void start_copy_out(TensorView from, TensorView to) override { copy_in(from, to); }
  void finish_copies_out() override {}
};

}  // namespace

std::unique_ptr<DeviceContext> make_cpu_context(Device device) {
  return std::make_unique<CpuContext>(device);
}

}  // namespace graft::ops::cpu
