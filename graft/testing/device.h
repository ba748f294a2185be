// For tests: devices without hardware. Their memory is host memory that is tracked per device;
// their operators are the CPU's, and check that their tensors are on the right device. Missing or
// wrong copies between devices, graph capture and failing devices are tested without a GPU.

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
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/device_bridge.h"
#include "graft/ops/device_context.h"
#include "graft/ops/operator.h"
#include "graft/ops/primitives.h"
#include "graft/ops/registry.h"
#include "graft/testing/device_memory.h"

namespace graft::ops::testing {

inline void expect_on(Device device, const TensorView& view, const std::string& what) {
  GRAFT_CHECK(view.device == device && test_memory().has(device, view), what, " runs on ",
              to_string(device), ", its rows are on ", to_string(view.device));
}

// Makes the n-th operation of the test devices from now on throw Error.
struct TestFault {
  std::int64_t countdown = 0;  // 0: no fault
  bool is_lasting = false;     // later operations fail too

  void count_operation() {
    if (countdown == 0 || --countdown > 0) return;
    if (is_lasting) countdown = 1;
    fail("cuda:0: broken for a test");
  }
};

inline TestFault& test_fault() {
  static TestFault fault;
  return fault;
}

// Bytes that all test devices have copied to the host.
inline std::size_t& test_bytes_out() {
  static std::size_t bytes = 0;
  return bytes;
}

// Host calls that replays of all test devices have run.
inline std::size_t& test_host_calls() {
  static std::size_t count = 0;
  return count;
}

// Rows that experts of all test devices have computed with weights in host memory.
inline std::int64_t& test_streamed_rows() {
  static std::int64_t rows = 0;
  return rows;
}

// Copies to the host appear only in finish_copies_out(): reading too early reads garbage. While
// capturing, operations are stored and run at every replay. A host call runs as late as possible,
// at its join, so that device work before the join that reads its result or overwrites its inputs
// fails the test.
class TestContext final : public DeviceContext, public GraphCapture {
 public:
  explicit TestContext(Device device)
      : DeviceContext(device), cpu_(cpu::make_cpu_context(kCpu)), replay_workspace_(device) {}

  // Runs `work` now, or at every replay while capturing, with the pass whose workspace it may use.
  void run(Pass& pass, const std::function<void(Pass&)>& work) {
    test_fault().count_operation();
    if (capturing_ == nullptr) return work(pass);
    // A replay needs its own workspace: memory of the pass's workspace may be in use by then.
    Pass later{.batch = pass.batch,
               .phase = pass.phase,
               .pool = pass.pool,
               .workspace = replay_workspace_,
               .profiler = pass.profiler,
               .devices = pass.devices};
    capturing_->steps.emplace_back([work, later]() mutable { work(later); });
  }

  void begin_pass(const Batch& /*batch*/) override { started_.clear(); }  // left by a failed pass
  void add(TensorView x, TensorView y, Pass& pass) override {
    expect_on(device(), x, "add");
    expect_on(device(), y, "add");
    run(pass, [this, x, y](Pass& there) { cpu_->add(x, y, there); });
  }
  void gather(TensorView x,
              std::span<const std::int32_t> rows,
              TensorView picked,
              Pass& pass) override {
    expect_on(device(), x, "gather");
    expect_on(device(), picked, "gather");
    run(pass, [this, x, rows, picked](Pass& there) { cpu_->gather(x, rows, picked, there); });
  }
  std::int64_t max_top_k() const override { return 64; }
  void find_top_k(TensorView logits, TensorView tokens, TensorView values) override {
    expect_on(device(), logits, "top-k");
    expect_on(device(), tokens, "top-k");
    expect_on(device(), values, "top-k");
    run([logits, tokens, values] {
      for (std::int64_t row = 0; row < logits.rows(); ++row)
        find_in_row(logits.slice(row, 1), tokens.slice(row, 1), values.slice(row, 1));
    });
  }
  void copy_in(TensorView from, TensorView to) override {
    expect_on(kCpu, from, "a copy in");
    expect_on(device(), to, "a copy in");
    run([from, to] {
      if (from.bytes() != 0) std::memcpy(to.data, from.data, from.bytes());
    });
  }
  void start_copy_out(TensorView from, TensorView to) override {
    expect_on(device(), from, "a copy out");
    expect_on(kCpu, to, "a copy out");
    run([this, from, to] {
      if (to.bytes() != 0) std::memset(to.data, 0x7f, to.bytes());
      started_.emplace_back(from, to);
    });
  }
  void finish_copies_out() override {
    test_fault().count_operation();
    deliver_copies();
  }

  GraphCapture* graph_capture() override { return this; }
  bool is_capturing() const override { return capturing_ != nullptr; }
  std::uint64_t memory_version() const override { return memory_version_; }
  void invalidate_graphs() { ++memory_version_; }
  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override {
    auto made = std::make_unique<Steps>();
    capturing_ = made.get();
    host_work_ = {};
    try {
      work();
      GRAFT_CHECK(host_work_ == nullptr, "a host call was not joined");
    } catch (...) {
      capturing_ = nullptr;
      throw;
    }
    capturing_ = nullptr;
    return made;
  }
  // After an error of a host call the device still executes the rest, as a GPU does.
  void replay(CapturedGraph& graph) override {
    host_error_ = nullptr;
    for (const auto& step : dynamic_cast<Steps&>(graph).steps)
      step();
    finish_copies_out();
    if (host_error_) std::rethrow_exception(std::exchange(host_error_, nullptr));
  }
  void host_call(const std::function<void()>& work) override {
    GRAFT_CHECK(is_capturing() && host_work_ == nullptr, "a host call outside of a capture");
    host_work_ = work;
    run([this] { deliver_copies(); });  // complete before the host works
  }
  void join_host_call() override {
    GRAFT_CHECK(is_capturing() && host_work_ != nullptr, "no host call to join");
    run([this, work = std::exchange(host_work_, {})] { run_on_host(work); });
  }

 private:
  struct Steps final : CapturedGraph {
    std::vector<std::function<void()>> steps;
  };

  void run(const std::function<void()>& work) {
    test_fault().count_operation();
    if (capturing_ == nullptr) return work();
    capturing_->steps.push_back(work);
  }

  void deliver_copies() {
    for (const auto& [from, to] : started_) {
      if (from.bytes() == 0) continue;
      std::memcpy(to.data, from.data, from.bytes());
      test_bytes_out() += from.bytes();
    }
    started_.clear();
  }

  // After an error later host calls are skipped: their inputs were not computed.
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

  std::unique_ptr<DeviceContext> cpu_;
  Workspace replay_workspace_;
  std::vector<std::pair<TensorView, TensorView>> started_;  // pending copies to the host: from, to
  Steps* capturing_ = nullptr;                              // null: not capturing
  std::function<void()> host_work_;                         // of the host call not joined yet
  std::exception_ptr host_error_;                           // of the replay in progress
  std::uint64_t memory_version_ = 0;
};

inline TestContext& test_context(Device device, Pass& pass) {
  return static_cast<TestContext&>(pass.devices->at(device));
}

// A CPU operator on a test device.
template <class Base>
class OnTestDevice : public Base {
 public:
  OnTestDevice(std::unique_ptr<Operator> op, const BuildContext& context)
      : owned_(std::move(op)),
        op_(dynamic_cast<Base&>(*owned_)),
        module_(context.module),
        device_(context.device) {}
  void load(WeightProvider& weights) override {
    CountingWeights counting(weights);
    owned_->load(counting);
    held_ = Buffer(counting.bytes(), device_);
  }
  void unload() override {
    owned_->unload();
    held_ = {};
  }

 protected:
  void expect_here(std::initializer_list<TensorView> views) const {
    for (const TensorView& view : views)
      expect_on(device_, view, module_);
  }
  void run(Pass& pass, const std::function<void(Pass&)>& work) const {
    test_context(device_, pass).run(pass, work);
  }

  std::unique_ptr<Operator> owned_;
  Base& op_;
  std::string module_;
  Device device_;
  Buffer held_;  // the memory that a GPU would take; the weights are the CPU operator's
};

class NormOnTestDevice final : public OnTestDevice<Norm> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(TensorView x, TensorView y, Pass& pass) override {
    expect_here({x, y});
    run(pass, [this, x, y](Pass& there) { op_.forward(x, y, there); });
  }
};

class LinearOnTestDevice final : public OnTestDevice<Linear> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(const Activation& x, TensorView y, Pass& pass) override {
    expect_here({x.f32, y});
    run(pass, [this, x, y](Pass& there) { op_.forward(x, y, there); });
  }
};

class EmbeddingOnTestDevice final : public OnTestDevice<Embedding> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(std::span<const std::int32_t> token_ids, TensorView y, Pass& pass) override {
    expect_here({y});
    run(pass, [this, token_ids, y](Pass& there) { op_.forward(token_ids, y, there); });
  }
};

class RopeOnTestDevice final : public OnTestDevice<Rope> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    expect_here({x});
    run(pass, [this, x, heads](Pass& there) { op_.forward(x, heads, there); });
  }
};

class RouterOnTestDevice final : public OnTestDevice<Router> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(TensorView x, Routing out, Pass& pass) override {
    expect_here({x, out.expert_ids, out.weights});
    run(pass, [this, x, out](Pass& there) { op_.forward(x, out, there); });
  }
  std::int64_t top_k() const override { return op_.top_k(); }
};

class ExpertsOnTestDevice final : public OnTestDevice<Experts> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    expect_here({x.f32, routing.expert_ids, routing.weights, y});
    run(pass, [this, x, routing, y](Pass& there) { op_.forward(x, routing, y, there); });
  }
};

// Experts on a test device in prefill and on the CPU in decode, with the contract of a GPU's: it
// loads no weights but computes with those of the CPU operator, and passes of fewer than
// stream_from tokens run on the CPU.
class StreamedExpertsOnTestDevice final : public Experts {
 public:
  explicit StreamedExpertsOnTestDevice(const BuildContext& context)
      : module_(context.module),
        device_(context.device),
        stream_from_(context.int_kwarg(stream_from_kwarg())),
        cpu_experts_(dynamic_cast<Experts&>(*context.decode_op)),
        bridge_(for_caller_on(context.device, cpu_experts_, kCpu, Role::Experts)),
        on_cpu_(dynamic_cast<Experts&>(*bridge_)) {}

  void load(WeightProvider& /*weights*/) override {
    GRAFT_CHECK(!cpu_experts_.host_store().empty(), module_, ": no weights in host memory");
  }
  void begin(const Activation& x, Routing routing, Pass& pass) override {
    if (!is_streamed(x)) on_cpu_.begin(x, routing, pass);
  }
  void end(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    if (!is_streamed(x)) return on_cpu_.end(x, routing, y, pass);
    for (const TensorView& view : {x.f32, routing.expert_ids, routing.weights, y})
      expect_on(device_, view, module_);
    test_streamed_rows() += x.rows();
    test_context(device_, pass).run(pass, [this, x, routing, y](Pass& there) {
      cpu_experts_.forward(x, routing, y, there);
    });
  }
  void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    begin(x, routing, pass);
    end(x, routing, y, pass);
  }

 private:
  bool is_streamed(const Activation& x) const { return x.rows() >= stream_from_; }

  std::string module_;
  Device device_;
  std::int64_t stream_from_;
  Experts& cpu_experts_;  // holds the weights
  std::unique_ptr<Operator> bridge_;
  Experts& on_cpu_;  // the bridge to cpu_experts_
};

// Rows are written in order with the device's other work; blocks are copied outside of passes.
class KvCacheOnTestDevice final : public OnTestDevice<KvCache> {
 public:
  using OnTestDevice::OnTestDevice;
  void allocate(std::int64_t num_blocks, std::int64_t block_tokens) override {
    op_.allocate(num_blocks, block_tokens);
    blocks_ = {};  // before the new ones
    blocks_ = Buffer(static_cast<std::size_t>(num_blocks) * op_.bytes_per_block(), device_);
  }
  void unload() override {
    OnTestDevice::unload();
    blocks_ = {};
  }
  std::int64_t num_blocks() const override { return op_.num_blocks(); }
  std::int64_t block_tokens() const override { return op_.block_tokens(); }
  std::size_t bytes_per_block() const override { return op_.bytes_per_block(); }
  void copy_block(std::int64_t from, std::int64_t to) override { op_.copy_block(from, to); }
  void save_block(std::int64_t block, std::span<std::byte> out) const override {
    op_.save_block(block, out);
  }
  void load_block(std::int64_t block, std::span<const std::byte> in) override {
    op_.load_block(block, in);
  }
  void release_blocks(std::int64_t first, std::int64_t count) override {
    op_.release_blocks(first, count);
  }
  std::string form() const override { return op_.form(); }
  void write(TensorView key, TensorView value, Pass& pass) override {
    expect_here({key});
    run(pass, [this, key, value](Pass& there) { op_.write(key, value, there); });
  }
  void read_keys(const SequenceSlice& sequence, const Part& part, float* out) const override {
    op_.read_keys(sequence, part, out);
  }
  void read_values(const SequenceSlice& sequence, const Part& part, float* out) const override {
    op_.read_values(sequence, part, out);
  }

 private:
  Buffer blocks_;  // the memory that a GPU would take; the blocks are the CPU operator's
};

// The CPU's primitives on a test device; fused ones are composed.
class TestPrimitives final : public Primitives {
 public:
  void silu_mul(TensorView gate, TensorView up, Pass& pass) override {
    expect_on(gate.device, up, "silu_mul");
    run(gate, pass, [this, gate, up](Pass& there) { cpu_->silu_mul(gate, up, there); });
  }
  void add_gated(TensorView y, TensorView x, TensorView gates, Pass& pass) override {
    expect_on(y.device, x, "add_gated");
    run(y, pass, [this, y, x, gates](Pass& there) { cpu_->add_gated(y, x, gates, there); });
  }
  void copy_columns(TensorView from, TensorView to, Pass& pass) override {
    expect_on(from.device, to, "copy_columns");
    run(from, pass, [this, from, to](Pass& there) { cpu_->copy_columns(from, to, there); });
  }
  std::unique_ptr<AttentionCore> make_attention(const BuildContext& context) override {
    return std::make_unique<Core>(cpu_->make_attention(context), context.device);
  }
  std::unique_ptr<AttentionCore> make_mla_attention(const BuildContext& context) override {
    return std::make_unique<Core>(cpu_->make_mla_attention(context), context.device);
  }

 private:
  static void run(TensorView x, Pass& pass, const std::function<void(Pass&)>& work) {
    expect_on(x.device, x, "a primitive");
    test_context(x.device, pass).run(pass, work);
  }

  class Core final : public AttentionCore {
   public:
    Core(std::unique_ptr<AttentionCore> core, Device device)
        : core_(std::move(core)), device_(device) {}
    void load(WeightProvider& weights) override {
      CountingWeights counting(weights);
      core_->load(counting);
      held_ = Buffer(counting.bytes(), device_);
    }
    void unload() override {
      core_->unload();
      held_ = {};
    }
    void forward(TensorView q, TensorView out, Pass& pass) override {
      expect_on(q.device, out, "attention");
      run(q, pass, [this, q, out](Pass& there) { core_->forward(q, out, there); });
    }

   private:
    std::unique_ptr<AttentionCore> core_;
    Device device_;
    Buffer held_;
  };

  std::shared_ptr<Primitives> cpu_ = cpu::make_primitives();
};

inline std::unique_ptr<Operator> on_test_device(Role role,
                                                std::unique_ptr<Operator> op,
                                                const BuildContext& context) {
  switch (role) {
    case Role::Embedding:
      return std::make_unique<EmbeddingOnTestDevice>(std::move(op), context);
    case Role::Norm:
      return std::make_unique<NormOnTestDevice>(std::move(op), context);
    case Role::Linear:
      return std::make_unique<LinearOnTestDevice>(std::move(op), context);
    case Role::Rope:
      return std::make_unique<RopeOnTestDevice>(std::move(op), context);
    case Role::Router:
      return std::make_unique<RouterOnTestDevice>(std::move(op), context);
    case Role::Experts:
      return std::make_unique<ExpertsOnTestDevice>(std::move(op), context);
    case Role::KvCache:
      return std::make_unique<KvCacheOnTestDevice>(std::move(op), context);
    default:
      return op;  // modules: made with the test device's primitives
  }
}

// Registers a copy of every CPU operator for test devices, which have type Cuda.
inline void add_test_devices(Registry& registry) {
  set_device_memory(DeviceType::Cuda, &test_memory());
  registry.add_device(
      DeviceType::Cuda, [](Device device) { return std::make_unique<TestContext>(device); },
      std::make_shared<TestPrimitives>());
  for (const OperatorInfo* cpu : registry.all()) {
    OperatorInfo twin = *cpu;
    twin.name = "test" + twin.name.substr(twin.name.find('.'));
    twin.device = DeviceType::Cuda;
    twin.is_native = false;
    if (cpu->role == Role::Experts) twin.kwargs.emplace_back("stream_from");
    twin.make = [cpu](const BuildContext& context) -> std::unique_ptr<Operator> {
      const bool decodes_on_cpu = context.decode_op != nullptr && context.decode_device == kCpu;
      if (cpu->role == Role::Experts && decodes_on_cpu)
        return std::make_unique<StreamedExpertsOnTestDevice>(context);
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
