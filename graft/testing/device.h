// For tests: devices without hardware. Their memory is host memory that is tracked per device;
// their operators are the CPU's, and check that their tensors are on the right device. Missing or
// wrong copies between devices, graph capture and failing devices are tested without a GPU.

#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/devices/cuda_operators.h"
#include "graft/ops/experts/hybrid_experts.h"
#include "graft/ops/operator.h"
#include "graft/ops/primitives.h"
#include "graft/ops/registry.h"
#include "graft/ops/vision/vision_modules.h"
#include "graft/testing/device_experts.h"
#include "graft/testing/device_memory.h"
#include "graft/testing/test_context.h"
#include "graft/testing/vision/device_vision.h"

namespace graft::ops::testing {

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
    run(pass, [this, ids = test_context(device_, pass).resolve(token_ids), y](Pass& there) {
      op_.forward(ids, y, there);
    });
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
    run(pass, [this, x, out](Pass& there) {
      Batch batch = there.batch;  // a table of experts is read with the tokens
      batch.token_ids = test_context(device_, there).resolve(batch.token_ids);
      Pass resolved = with(there, batch, there.workspace);
      op_.forward(x, out, resolved);
    });
  }
  std::int64_t top_k() const override { return op_.top_k(); }
};

class HyperConnectionOnTestDevice final : public OnTestDevice<HyperConnection> {
 public:
  using OnTestDevice::OnTestDevice;
  std::int64_t mult() const override { return op_.mult(); }
  void replicate(TensorView x, TensorView streams, Pass& pass) override {
    expect_here({x, streams});
    run(pass, [this, x, streams](Pass& there) { op_.replicate(x, streams, there); });
  }
  void collapse(TensorView streams, TensorView y, TensorView mix, Pass& pass) override {
    expect_here({streams, y});
    run(pass, [this, streams, y, mix](Pass& there) { op_.collapse(streams, y, mix, there); });
  }
  void add(TensorView y, TensorView mix, TensorView streams, Pass& pass) override {
    expect_here({y, mix, streams});
    run(pass, [this, y, mix, streams](Pass& there) { op_.add(y, mix, streams, there); });
  }
};

class ExpertsOnTestDevice final : public OnTestDevice<Experts> {
 public:
  using OnTestDevice::OnTestDevice;
  void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    expect_here({x.f32, routing.expert_ids, routing.weights, y});
    run(pass, [this, x, routing, y](Pass& there) { op_.forward(x, routing, y, there); });
  }
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
  std::byte* blocks() const override { return op_.blocks(); }
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

// Slots are copied in order with the device's work: both run at once.
class StateCacheOnTestDevice final : public OnTestDevice<StateCache> {
 public:
  using OnTestDevice::OnTestDevice;
  void allocate(std::int64_t num_slots) override {
    op_.allocate(num_slots);
    slots_ = {};  // before the new ones
    slots_ = Buffer(static_cast<std::size_t>(num_slots) * op_.bytes_per_slot(), device_);
  }
  void unload() override {
    OnTestDevice::unload();
    slots_ = {};
  }
  std::int64_t num_slots() const override { return op_.num_slots(); }
  std::size_t bytes_per_slot() const override { return op_.bytes_per_slot(); }
  void copy_slot(std::int64_t from, std::int64_t to) override { op_.copy_slot(from, to); }
  void save_slot(std::int64_t slot, std::span<std::byte> out) const override {
    op_.save_slot(slot, out);
  }
  void load_slot(std::int64_t slot, std::span<const std::byte> in) override {
    op_.load_slot(slot, in);
  }
  void release_slots(std::int64_t first, std::int64_t count) override {
    op_.release_slots(first, count);
  }
  std::string form() const override { return op_.form(); }
  TensorView slots() const override { return op_.slots(); }

 private:
  Buffer slots_;  // the memory that a GPU would take; the slots are the CPU operator's
};

// The CPU's primitives on a test device; fused ones are composed.
class TestPrimitives final : public Primitives {
 public:
  void silu_mul(TensorView gate, TensorView up, Pass& pass) override {
    expect_on(gate.device, up, "silu_mul");
    run(gate, pass, [this, gate, up](Pass& there) { cpu_->silu_mul(gate, up, there); });
  }
  void gelu_mul(TensorView gate, TensorView up, Pass& pass) override {
    expect_on(gate.device, up, "gelu_mul");
    run(gate, pass, [this, gate, up](Pass& there) { cpu_->gelu_mul(gate, up, there); });
  }
  void limited_silu_mul(TensorView gate, TensorView up, float limit, Pass& pass) override {
    expect_on(gate.device, up, "limited_silu_mul");
    run(gate, pass,
        [this, gate, up, limit](Pass& there) { cpu_->limited_silu_mul(gate, up, limit, there); });
  }
  void add_gated(TensorView y, TensorView x, TensorView gates, Pass& pass) override {
    expect_on(y.device, x, "add_gated");
    run(y, pass, [this, y, x, gates](Pass& there) { cpu_->add_gated(y, x, gates, there); });
  }
  void copy_columns(TensorView from, TensorView to, Pass& pass) override {
    expect_on(from.device, to, "copy_columns");
    run(from, pass, [this, from, to](Pass& there) { cpu_->copy_columns(from, to, there); });
  }
  void mul_sigmoid(TensorView y, TensorView gates, Pass& pass) override {
    expect_on(y.device, gates, "mul_sigmoid");
    run(y, pass, [this, y, gates](Pass& there) { cpu_->mul_sigmoid(y, gates, there); });
  }
  void scale_rows(TensorView x, TensorView factors, TensorView y, Pass& pass) override {
    expect_on(x.device, y, "scale_rows");
    run(x, pass, [this, x, factors, y](Pass& there) { cpu_->scale_rows(x, factors, y, there); });
  }
  void scale_queries(TensorView q, const AttentionParams& params, Pass& pass) override {
    run(q, pass, [this, q, params](Pass& there) { cpu_->scale_queries(q, params, there); });
  }
  std::unique_ptr<LoraLayer> make_lora(Device device, const LoraSize& size) override {
    return std::make_unique<Lora>(cpu_->make_lora(kCpu, size), device);
  }
  std::unique_ptr<IndexerCore> make_indexer(const BuildContext& context) override {
    return std::make_unique<Index>(cpu_->make_indexer(context), context.device);
  }
  std::unique_ptr<AttentionCore> make_attention(const BuildContext& context) override {
    return std::make_unique<Core>(cpu_->make_attention(context), context.device);
  }
  std::unique_ptr<AttentionCore> make_mla_attention(const BuildContext& context) override {
    return std::make_unique<Core>(cpu_->make_mla_attention(context), context.device);
  }
  std::unique_ptr<DeltaNetCore> make_delta_net(const BuildContext& context) override {
    return std::make_unique<DeltaNet>(cpu_->make_delta_net(context), context.device);
  }
  std::unique_ptr<AttentionCore> make_compressed_attention(const BuildContext& context) override {
    return std::make_unique<Core>(cpu_->make_compressed_attention(context), context.device);
  }
  std::unique_ptr<CompressorCore> make_compressor(const CompressorParams& params,
                                                  const BuildContext& context) override {
    return std::make_unique<Windows>(cpu_->make_compressor(params, context), context.device);
  }

 private:
  static void run(TensorView x, Pass& pass, const std::function<void(Pass&)>& work) {
    expect_on(x.device, x, "a primitive");
    test_context(x.device, pass).run(pass, work);
  }

  // Adapters of the CPU on the test device.
  class Lora final : public LoraLayer {
   public:
    Lora(std::unique_ptr<LoraLayer> layer, Device device)
        : layer_(std::move(layer)), device_(device) {}
    void add(const LoraOperand& x,
             const LoraOperand& y,
             std::int64_t first_row,
             std::int64_t num_rows,
             Pass& pass) override {
      test_context(device_, pass).run(pass, [this, x, y, first_row, num_rows](Pass& there) {
        layer_->add(x, y, first_row, num_rows, there);
      });
    }

   private:
    void store(std::int32_t adapter, const LoraMatrices& matrices) override {
      layer_->set(adapter, matrices);
    }
    void drop(std::int32_t adapter) override { layer_->clear(adapter); }

    std::unique_ptr<LoraLayer> layer_;
    Device device_;
  };

  // A core of the CPU with the memory of its weights on the test device.
  template <class Base>
  class HeldCore : public Base {
   public:
    HeldCore(std::unique_ptr<Base> core, Device device) : core_(std::move(core)), device_(device) {}
    void load(WeightProvider& weights) override {
      CountingWeights counting(weights);
      core_->load(counting);
      held_ = Buffer(counting.bytes(), device_);
    }
    void unload() override {
      core_->unload();
      held_ = {};
    }

   protected:
    Base& core() { return *core_; }
    Device device() const { return device_; }

   private:
    std::unique_ptr<Base> core_;
    Device device_;
    Buffer held_;
  };

  class Core final : public HeldCore<AttentionCore> {
   public:
    using HeldCore::HeldCore;
    void forward(TensorView q, TensorView out, Pass& pass) override {
      expect_on(q.device, out, "attention");
      run(q, pass, [this, q, out](Pass& there) { core().forward(q, out, there); });
    }
    void forward_selected(TensorView q, TensorView selected, TensorView out, Pass& pass) override {
      expect_on(q.device, selected, "selected positions");
      run(q, pass, [this, q, selected, out](Pass& there) {
        core().forward_selected(q, selected, out, there);
      });
    }
  };

  class DeltaNet final : public HeldCore<DeltaNetCore> {
   public:
    using HeldCore::HeldCore;
    void forward(const DeltaNetInput& in, TensorView out, Pass& pass) override {
      expect_on(in.qkv.device, out, "the delta rule");
      run(in.qkv, pass, [this, in, out](Pass& there) { core().forward(in, out, there); });
    }
  };

  class Windows final : public HeldCore<CompressorCore> {
   public:
    using HeldCore::HeldCore;
    void store(TensorView projection, TensorView logits, Pass& pass) override {
      expect_on(projection.device, logits, "windows");
      run(projection, pass,
          [this, projection, logits](Pass& there) { core().store(projection, logits, there); });
    }
    void compress(Pass& pass) override {
      test_context(device(), pass).run(pass, [this](Pass& there) { core().compress(there); });
    }
  };

  class Index final : public HeldCore<IndexerCore> {
   public:
    using HeldCore::HeldCore;
    void norm_keys(TensorView keys, Pass& pass) override {
      run(keys, pass, [this, keys](Pass& there) { core().norm_keys(keys, there); });
    }
    void select(TensorView q, TensorView weights, TensorView selected, Pass& pass) override {
      expect_on(q.device, selected, "selected positions");
      run(q, pass, [this, q, weights, selected](Pass& there) {
        core().select(q, weights, selected, there);
      });
    }
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
    case Role::HyperConnection:
      return std::make_unique<HyperConnectionOnTestDevice>(std::move(op), context);
    case Role::Experts:
      return std::make_unique<ExpertsOnTestDevice>(std::move(op), context);
    case Role::KvCache:
      return std::make_unique<KvCacheOnTestDevice>(std::move(op), context);
    case Role::StateCache:
      return std::make_unique<StateCacheOnTestDevice>(std::move(op), context);
    default:
      return op;  // modules: made with the test device's primitives
  }
}

// Whether GPUs have an operator of the same name.
inline bool is_on_gpus(const OperatorInfo& cpu) {
  return std::ranges::any_of(cuda_operators(), [&](const OperatorInfo& gpu) {
    return gpu.name.substr(gpu.name.find('.')) == cpu.name.substr(cpu.name.find('.'));
  });
}

// Registers a copy of every CPU operator that GPUs have for test devices, which have type Cuda.
inline void add_test_devices(Registry& registry) {
  set_device_memory(DeviceType::Cuda, &test_memory());
  registry.add_device(
      DeviceType::Cuda, [](Device device) { return std::make_unique<TestContext>(device); },
      std::make_shared<TestPrimitives>());
  for (const OperatorInfo* cpu : registry.all()) {
    if (!is_on_gpus(*cpu)) continue;
    OperatorInfo twin = *cpu;
    twin.name = "test" + twin.name.substr(twin.name.find('.'));
    twin.device = DeviceType::Cuda;
    twin.is_native = false;
    if (cpu->role == Role::Experts) {
      twin.kwargs.push_back(stream_from_kwarg());
      twin.kwargs.push_back(gpu_experts_kwarg());
    }
    twin.make = [cpu](const BuildContext& context) -> std::unique_ptr<Operator> {
      if (cpu->role == Role::Experts && context.host_op != nullptr)
        return make_hybrid_experts(context, std::make_unique<DeviceExpertsForTests>(context));
      if (cpu->role == Role::VisionTower)
        return make_vision_tower(context, std::make_unique<TestVision>());
      if (cpu->role == Role::Projector)
        return make_projector(context, std::make_unique<TestVision>());
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
