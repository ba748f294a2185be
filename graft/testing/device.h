// For tests: devices that are none. Their memory is the processor's, in a place of its own; their
// operators are the processor's, and look where their rows are. What crosses from one device to
// another the wrong way, or not at all, is found without a GPU; and what becomes of a device that
// fails.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/device_state.h"
#include "graft/ops/operator.h"
#include "graft/ops/registry.h"
#include "graft/tensor/device_memory.h"

namespace graft::ops::testing {

// Knows what it has given out, and so whose an address is.
class TestMemory final : public DeviceMemory {
 public:
  std::byte* take(std::int32_t index, std::size_t bytes) override {
    if (bytes > available(index)) return nullptr;
    num_taken_[index] += bytes;
    auto* data = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
    pieces_[data] = {.index = index, .bytes = bytes};
    return data;
  }
  void free(std::int32_t index, std::byte* data, std::size_t bytes) noexcept override {
    const auto found = pieces_.find(data);
    GRAFT_CHECK(
        found != pieces_.end() && found->second.index == index && found->second.bytes == bytes,
        "not what was taken");
    pieces_.erase(found);
    num_taken_[index] -= bytes;
    ::operator delete (data, std::align_val_t{64});
  }
  std::uint64_t available(std::int32_t index) override {
    return room_ - std::min(room_, num_taken_[index]);
  }
  // Bytes of a device, whatever is taken of them already.
  void set_room(std::uint64_t bytes) { room_ = bytes; }
  std::byte* allocate_staging(std::int32_t /*index*/, std::size_t bytes) override {
    ++num_staging_;
    return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
  }
  void free_staging(std::int32_t /*index*/,
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
  std::uint64_t room_ = std::uint64_t{1} << 30U;
  std::map<std::int32_t, std::uint64_t> num_taken_;
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

// What goes wrong on test devices: at the n-th thing they are asked from now on, Error is thrown.
struct TestFault {
  std::int64_t countdown = 0;  // 0: nothing goes wrong
  bool is_lasting = false;     // all that is asked later goes wrong too

  void pass_by() {
    if (countdown == 0 || --countdown > 0) return;
    if (is_lasting) countdown = 1;
    fail("cuda:0: broken for a test");
  }
};

inline TestFault& test_fault() {
  static TestFault fault;
  return fault;
}

// Bytes that all test devices have copied to the processor.
inline std::size_t& test_bytes_out() {
  static std::size_t bytes = 0;
  return bytes;
}

// Host calls that replays of all test devices have run.
inline std::size_t& test_host_calls() {
  static std::size_t count = 0;
  return count;
}

// Copies out are done when they are finished, not before: whoever reads too early reads nonsense.
// While it records it takes note of what is asked, and does it at every replay. A host call runs as
// late as it may, at its join: device work in between that reads its result or overwrites its
// inputs shows.
class TestState final : public DeviceState {
 public:
  explicit TestState(Device device)
      : DeviceState(device), cpu_(cpu::make_cpu_state(kCpu)), replay_workspace_(device) {}

  // Does it, with the pass that is given there.
  void ask(Pass& pass, const std::function<void(Pass&)>& work) {
    test_fault().pass_by();
    if (recording_ == nullptr) return work(pass);
    // What is taken here and given back by now is in use at the replay.
    Pass later{.batch = pass.batch,
               .phase = pass.phase,
               .pool = pass.pool,
               .workspace = replay_workspace_,
               .profiler = pass.profiler,
               .devices = pass.devices};
    recording_->steps.emplace_back([work, later]() mutable { work(later); });
  }

  // What a pass that failed has left is nobody's.
  void begin_pass(const Batch& /*batch*/) override { started_.clear(); }
  void add(TensorView x, TensorView y, Pass& pass) override {
    expect_on(device(), x, "add");
    expect_on(device(), y, "add");
    ask(pass, [this, x, y](Pass& there) { cpu_->add(x, y, there); });
  }
  void gather(TensorView x,
              std::span<const std::int32_t> rows,
              TensorView picked,
              Pass& pass) override {
    expect_on(device(), x, "gather");
    expect_on(device(), picked, "gather");
    ask(pass, [this, x, rows, picked](Pass& there) { cpu_->gather(x, rows, picked, there); });
  }
  std::int64_t max_top_k() const override { return 64; }
  void find_top_k(TensorView logits, TensorView tokens, TensorView values) override {
    expect_on(device(), logits, "candidates");
    expect_on(device(), tokens, "candidates");
    expect_on(device(), values, "candidates");
    ask([logits, tokens, values] {
      for (std::int64_t row = 0; row < logits.rows(); ++row)
        find_in_row(logits.slice(row, 1), tokens.slice(row, 1), values.slice(row, 1));
    });
  }
  void copy_in(TensorView from, TensorView to) override {
    expect_on(kCpu, from, "a copy in");
    expect_on(device(), to, "a copy in");
    ask([from, to] { std::memcpy(to.data, from.data, from.bytes()); });
  }
  void start_copy_out(TensorView from, TensorView to) override {
    expect_on(device(), from, "a copy out");
    expect_on(kCpu, to, "a copy out");
    ask([this, from, to] {
      std::memset(to.data, 0x7f, to.bytes());
      started_.emplace_back(from, to);
    });
  }
  void finish_copies_out() override {
    test_fault().pass_by();
    deliver_copies();
  }

  bool can_capture() const override { return true; }
  bool is_capturing() const override { return recording_ != nullptr; }
  std::unique_ptr<CapturedGraph> record(const std::function<void()>& work) override {
    auto made = std::make_unique<Steps>();
    recording_ = made.get();
    host_work_ = {};
    try {
      work();
      GRAFT_CHECK(host_work_ == nullptr, "a host call was not joined");
    } catch (...) {
      recording_ = nullptr;
      throw;
    }
    recording_ = nullptr;
    return made;
  }
  // After an error of a host call the device still does the rest, as a GPU does.
  void replay(CapturedGraph& recording) override {
    host_error_ = nullptr;
    for (const auto& step : dynamic_cast<Steps&>(recording).steps)
      step();
    finish_copies_out();
    if (host_error_) std::rethrow_exception(std::exchange(host_error_, nullptr));
  }

  void host_call(const std::function<void()>& work) override {
    GRAFT_CHECK(is_capturing() && host_work_ == nullptr, "a host call outside of a capture");
    host_work_ = work;
    // What was copied out so far is there before the host works.
    ask([this] { deliver_copies(); });
  }
  void join_host_call() override {
    GRAFT_CHECK(is_capturing() && host_work_ != nullptr, "no host call to join");
    ask([this, work = std::exchange(host_work_, {})] { run_on_host(work); });
  }

 private:
  struct Steps final : CapturedGraph {
    std::vector<std::function<void()>> steps;
  };

  void ask(const std::function<void()>& work) {
    test_fault().pass_by();
    if (recording_ == nullptr) return work();
    recording_->steps.push_back(work);
  }

  void deliver_copies() {
    for (const auto& [from, to] : started_) {
      std::memcpy(to.data, from.data, from.bytes());
      test_bytes_out() += from.bytes();
    }
    started_.clear();
  }

  // Once one has failed, the later ones are skipped: what they work on was not computed.
  void run_on_host(const std::function<void()>& work) {
    if (host_error_) return;
    ++test_host_calls();
    try {
      work();
    } catch (...) {
      host_error_ = std::current_exception();
    }
  }

  static void find_in_row(TensorView logits, TensorView tokens, TensorView values) {
    const float* row = logits.f32();
    const auto is_before = [&](std::int32_t a, std::int32_t b) {
      if (std::isnan(row[a]) || std::isnan(row[b]))
        return std::isnan(row[a]) && (!std::isnan(row[b]) || a < b);
      return row[a] != row[b] ? row[a] > row[b] : a < b;
    };
    std::vector<std::int32_t> order(static_cast<std::size_t>(logits.cols()));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, is_before);
    for (std::int64_t i = 0; i < tokens.cols(); ++i) {
      tokens.as<std::int32_t>()[i] = order[static_cast<std::size_t>(i)];
      values.f32()[i] = row[order[static_cast<std::size_t>(i)]];
    }
  }

  std::unique_ptr<DeviceState> cpu_;
  Workspace replay_workspace_;
  std::vector<std::pair<TensorView, TensorView>> started_;
  Steps* recording_ = nullptr;       // the one under way
  std::function<void()> host_work_;  // of the call that was not joined yet
  std::exception_ptr host_error_;    // of the replay under way
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
  void ask(Pass& pass, const std::function<void(Pass&)>& work) const {
    static_cast<TestState&>(pass.devices->at(device_)).ask(pass, work);
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
    this->ask(pass, [this, x, y](Pass& there) { this->op_.forward(x, y, there); });
  }
};

class EmbeddingOnTestDevice final : public OnTestDevice<Embedding> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(std::span<const std::int32_t> token_ids, TensorView y, Pass& pass) override {
    expect_here({y});
    ask(pass, [this, token_ids, y](Pass& there) { op_.forward(token_ids, y, there); });
  }
};

class RopeOnTestDevice final : public OnTestDevice<Rope> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    expect_here({x});
    ask(pass, [this, x, heads](Pass& there) { op_.forward(x, heads, there); });
  }
};

class RouterOnTestDevice final : public OnTestDevice<Router> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(TensorView x, Routing out, Pass& pass) override {
    expect_here({x, out.expert_ids, out.weights});
    ask(pass, [this, x, out](Pass& there) { op_.forward(x, out, there); });
  }
  std::int64_t top_k() const override { return op_.top_k(); }
};

class ExpertsOnTestDevice final : public OnTestDevice<Experts> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(TensorView x, Routing routing, TensorView y, Pass& pass) override {
    expect_here({x, routing.expert_ids, routing.weights, y});
    ask(pass, [this, x, routing, y](Pass& there) { op_.forward(x, routing, y, there); });
  }
};

// Asks its children one by one, so that host calls of experts elsewhere reach a capture.
class MoeOnTestDevice final : public Mlp {
 public:
  explicit MoeOnTestDevice(const BuildContext& context)
      : device_(context.device),
        gate_(context.child_as<Router>("gate")),
        experts_(context.child_as<Experts>("experts")),
        shared_experts_(context.optional_child<Mlp>("shared_experts")),
        shared_expert_gate_(context.optional_child<Linear>("shared_expert_gate")) {
    if (shared_experts_ == nullptr) shared_experts_ = context.optional_child<Mlp>("shared_expert");
  }
  void load(WeightProvider& /*weights*/) override {}  // the children have them all

  void forward(TensorView x, TensorView y, Pass& pass) override {
    expect_on(device_, x, "a mixture of experts");
    expect_on(device_, y, "a mixture of experts");
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t top_k = gate_.top_k();
    const Routing routing = {.expert_ids = pass.workspace.take(DType::I32, {x.rows(), top_k}),
                             .weights = pass.workspace.f32({x.rows(), top_k})};
    gate_.forward(x, routing, pass);
    experts_.begin(x, routing, pass);
    if (shared_experts_ == nullptr) return experts_.end(x, routing, y, pass);
    const TensorView shared = pass.workspace.f32({x.rows(), y.cols()});
    const TensorView gates = pass.workspace.f32({x.rows(), 1});
    shared_experts_->forward(x, shared, pass);
    if (shared_expert_gate_ != nullptr) shared_expert_gate_->forward(x, gates, pass);
    experts_.end(x, routing, y, pass);
    const bool is_gated = shared_expert_gate_ != nullptr;
    static_cast<TestState&>(pass.devices->at(device_)).ask(pass, [=](Pass& /*there*/) {
      add_shared(is_gated, gates, shared, y);
    });
  }

 private:
  // y += shared, times sigmoid(gate) where there is one: the bits of the CPU's operator.
  static void add_shared(bool is_gated, TensorView gates, TensorView shared, TensorView y) {
    const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
    if (is_gated) math.sigmoid(gates.f32(), gates.rows());
    for (std::int64_t row = 0; row < y.rows(); ++row) {
      const float factor = is_gated ? gates.f32()[row] : 1.0F;
      math.axpy(factor, shared.f32_row(row), y.f32_row(row), y.cols());
    }
  }

  Device device_;
  Router& gate_;
  Experts& experts_;
  Mlp* shared_experts_;         // null: none
  Linear* shared_expert_gate_;  // null: none
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
      return std::make_unique<RowsOnTestDevice<Mlp>>(std::move(op), context);
    case Role::Moe:
      return std::make_unique<MoeOnTestDevice>(context);
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

// For OpenOptions::operators.
inline Registry with_test_devices(int /*num_gpus*/) {
  Registry registry = builtin_operators();
  add_test_devices(registry);
  return registry;
}

}  // namespace graft::ops::testing
