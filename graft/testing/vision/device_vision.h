// For tests: what vision modules need, of the CPU, on a test device (device.h).

#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "graft/ops/cpu/operators.h"
#include "graft/ops/operator.h"
#include "graft/ops/vision/vision_modules.h"
#include "graft/tensor/buffer.h"
#include "graft/testing/device_memory.h"
#include "graft/testing/test_context.h"

namespace graft::ops::testing {

// An operator of the CPU and the memory that its weights would take on the device.
template <class Base>
class VisionOnTestDevice final : public Base {
 public:
  VisionOnTestDevice(std::unique_ptr<Base> op, Device device)
      : op_(std::move(op)), device_(device) {}
  void load(WeightProvider& weights) override {
    CountingWeights counting(weights);
    op_->load(counting);
    held_ = Buffer(counting.bytes(), device_);
  }
  void unload() override {
    op_->unload();
    held_ = {};
  }

  using Input = std::conditional_t<std::is_same_v<Base, Linear>, const Activation&, TensorView>;
  void forward(Input x, TensorView y, Pass& pass) override {
    const TensorView in = view(x);
    expect_on(device_, in, "a vision layer");
    expect_on(device_, y, "a vision layer");
    test_context(device_, pass).run(pass, [this, in, y](Pass& there) {
      op_->forward(in, y, there);
    });
  }

 private:
  static TensorView view(const Activation& x) { return x.f32; }
  static TensorView view(TensorView x) { return x; }

  std::unique_ptr<Base> op_;
  Device device_;
  Buffer held_;
};

class TestVision final : public VisionPrimitives {
 public:
  std::unique_ptr<Linear> make_linear(const BuildContext& context) override {
    return std::make_unique<VisionOnTestDevice<Linear>>(cpu_->make_linear(context), context.device);
  }
  std::unique_ptr<Norm> make_layer_norm(const std::string& name,
                                        const NormParams& params,
                                        Device device) override {
    return std::make_unique<VisionOnTestDevice<Norm>>(cpu_->make_layer_norm(name, params, kCpu),
                                                      device);
  }
  void attend(TensorView q,
              TensorView k,
              TensorView v,
              TensorView out,
              const Heads& heads,
              Pass& pass) override {
    for (const TensorView& view : {k, v, out})
      expect_on(q.device, view, "vision attention");
    test_context(q.device, pass).run(pass, [this, q, k, v, out, heads](Pass& there) {
      cpu_->attend(q, k, v, out, heads, there);
    });
  }
  void activate(TensorView x, VisionTowerParams::Activation activation, Pass& pass) override {
    expect_on(x.device, x, "an activation");
    test_context(x.device, pass).run(pass, [this, x, activation](Pass& there) {
      cpu_->activate(x, activation, there);
    });
  }

 private:
  std::unique_ptr<VisionPrimitives> cpu_ = cpu::make_vision_primitives();
};

}  // namespace graft::ops::testing
