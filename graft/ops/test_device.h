// For tests: devices that are none. Their memory is the processor's, in a place of its own; their
// operators are the processor's, and look where their rows are. What crosses from one device to
// another the wrong way, or not at all, is found without a GPU.

#pragma once

#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/ops/device_state.h"
#include "graft/ops/operator.h"
#include "graft/ops/registry.h"
#include "graft/tensor/device_memory.h"

namespace graft::ops::testing {

// Knows what it has given out, and so whose an address is.
class TestMemory final : public DeviceMemory {
 public:
  std::byte* take(std::int32_t index, std::size_t bytes) override {
    auto* data = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
    pieces_[data] = {.index = index, .bytes = bytes};
    return data;
  }
  void give_back(std::int32_t index, std::byte* data, std::size_t bytes) noexcept override {
    const auto found = pieces_.find(data);
    GRAFT_CHECK(
        found != pieces_.end() && found->second.index == index && found->second.bytes == bytes,
        "not what was taken");
    pieces_.erase(found);
    ::operator delete (data, std::align_val_t{64});
  }
  std::uint64_t available(std::int32_t /*index*/) override { return std::uint64_t{1} << 30U; }
  std::byte* take_staging(std::int32_t /*index*/, std::size_t bytes) override {
    ++num_staging_;
    return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
  }
  void give_back_staging(std::int32_t /*index*/,
                         std::byte* data,
                         std::size_t /*bytes*/) noexcept override {
    --num_staging_;
    ::operator delete (data, std::align_val_t{64});
  }

  bool has(Device device, const TensorView& view) const {
    const auto* data = static_cast<const std::byte*>(view.data);
    auto found = pieces_.upper_bound(data);
    if (found == pieces_.begin()) return device == kCpu;
    --found;
    const bool is_inside = data + view.bytes() <= found->first + found->second.bytes;
    if (!is_inside) return device == kCpu;
    return device.type == DeviceType::Cuda && device.index == found->second.index;
  }
  std::size_t num_pieces() const { return pieces_.size() + num_staging_; }

 private:
  struct Piece {
    std::int32_t index = 0;
    std::size_t bytes = 0;
  };
  std::map<const std::byte*, Piece> pieces_;
  std::size_t num_staging_ = 0;
};

inline TestMemory& test_memory() {
  static TestMemory memory;
  return memory;
}

inline void expect_on(Device device, const TensorView& view, const std::string& what) {
  GRAFT_CHECK(view.device == device && test_memory().has(device, view), what, " runs on ",
              to_string(device), ", was given rows that say ", to_string(view.device));
}

// Copies out are done when they are finished, not before: whoever reads too early reads nonsense.
class TestState final : public DeviceState {
 public:
  explicit TestState(Device device) : DeviceState(device), cpu_(make_cpu_state(kCpu)) {}

  void add(TensorView x, TensorView y, Pass& pass) override {
    expect_on(device(), x, "add");
    expect_on(device(), y, "add");
    cpu_->add(x, y, pass);
  }
  void gather(TensorView x,
              std::span<const std::int32_t> rows,
              TensorView picked,
              Pass& pass) override {
    expect_on(device(), x, "gather");
    expect_on(device(), picked, "gather");
    cpu_->gather(x, rows, picked, pass);
  }
  void copy_in(TensorView from, TensorView to) override {
    expect_on(kCpu, from, "a copy in");
    expect_on(device(), to, "a copy in");
    std::memcpy(to.data, from.data, from.bytes());
  }
  void start_copy_out(TensorView from, TensorView to) override {
    expect_on(device(), from, "a copy out");
    expect_on(kCpu, to, "a copy out");
    std::memset(to.data, 0x7f, to.bytes());
    started_.emplace_back(from, to);
  }
  void finish_copies_out() override {
    for (const auto& [from, to] : started_)
      std::memcpy(to.data, from.data, from.bytes());
    started_.clear();
  }

 private:
  std::unique_ptr<DeviceState> cpu_;
  std::vector<std::pair<TensorView, TensorView>> started_;
};

// An operator of the processor on a test device.
template <class Base>
class OnTestDevice : public Base {
 public:
  OnTestDevice(std::unique_ptr<Operator> op, const BuildContext& context)
      : owned_(std::move(op)),
        op_(dynamic_cast<Base&>(*owned_)),
        module_(context.module),
        device_(context.device) {}
  void load(WeightProvider& weights) override { owned_->load(weights); }
  void unload() override { owned_->unload(); }

 protected:
  void expect_here(std::initializer_list<TensorView> views) const {
    for (const TensorView& view : views)
      expect_on(device_, view, module_);
  }

  std::unique_ptr<Operator> owned_;
  Base& op_;
  std::string module_;
  Device device_;
};

template <class Base>
class RowsOnTestDevice final : public OnTestDevice<Base> {
 public:
  using OnTestDevice<Base>::OnTestDevice;
  void forward(TensorView x, TensorView y, Pass& pass) override {
    this->expect_here({x, y});
    this->op_.forward(x, y, pass);
  }
};

class EmbeddingOnTestDevice final : public OnTestDevice<Embedding> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(std::span<const std::int32_t> token_ids, TensorView y, Pass& pass) override {
    expect_here({y});
    op_.forward(token_ids, y, pass);
  }
};

class RopeOnTestDevice final : public OnTestDevice<Rope> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    expect_here({x});
    op_.forward(x, heads, pass);
  }
};

class RouterOnTestDevice final : public OnTestDevice<Router> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(TensorView x, Routing out, Pass& pass) override {
    expect_here({x, out.expert_ids, out.weights});
    op_.forward(x, out, pass);
  }
  std::int64_t top_k() const override { return op_.top_k(); }
};

class ExpertsOnTestDevice final : public OnTestDevice<Experts> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(TensorView x, Routing routing, TensorView y, Pass& pass) override {
    expect_here({x, routing.expert_ids, routing.weights, y});
    op_.forward(x, routing, y, pass);
  }
};

inline std::unique_ptr<Operator> on_test_device(Role role,
                                                std::unique_ptr<Operator> op,
                                                const BuildContext& context) {
  switch (role) {
    case Role::Embedding:
      return std::make_unique<EmbeddingOnTestDevice>(std::move(op), context);
    case Role::Norm:
      return std::make_unique<RowsOnTestDevice<Norm>>(std::move(op), context);
    case Role::Linear:
      return std::make_unique<RowsOnTestDevice<Linear>>(std::move(op), context);
    case Role::Rope:
      return std::make_unique<RopeOnTestDevice>(std::move(op), context);
    case Role::Attention:
      return std::make_unique<RowsOnTestDevice<Attention>>(std::move(op), context);
    case Role::Mlp:
    case Role::Moe:
      return std::make_unique<RowsOnTestDevice<Mlp>>(std::move(op), context);
    case Role::Router:
      return std::make_unique<RouterOnTestDevice>(std::move(op), context);
    case Role::Experts:
      return std::make_unique<ExpertsOnTestDevice>(std::move(op), context);
    default:
      return op;  // the cache, which nobody else reaches
  }
}

// Adds a twin of every operator of the processor, for devices of the type Cuda.
inline void add_test_devices(Registry& registry) {
  set_device_memory(DeviceType::Cuda, &test_memory());
  registry.add_device_states(DeviceType::Cuda,
                             [](Device device) { return std::make_unique<TestState>(device); });
  for (const OperatorInfo* cpu : registry.all()) {
    OperatorInfo twin = *cpu;
    twin.name = "test" + twin.name.substr(twin.name.find('.'));
    twin.device = DeviceType::Cuda;
    twin.make = [cpu](const BuildContext& context) {
      return on_test_device(cpu->role, cpu->make(context), context);
    };
    registry.add(std::move(twin));
  }
}

}  // namespace graft::ops::testing
