// For tests: operators that replace built-in ones as a plugin would. They are not native and
// forward every call to the operator they replace, so that a module must give the same result with
// them.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "graft/base/check.h"
#include "graft/ops/operator.h"
#include "graft/ops/registry.h"

namespace graft::ops::testing {

// Calls of all forwarding operators.
inline std::size_t& forwarded_calls() {
  static std::size_t calls = 0;
  return calls;
}

template <class Base>
class Forwarding : public Base {
 public:
  explicit Forwarding(std::unique_ptr<Operator> op)
      : owned_(std::move(op)), op_(dynamic_cast<Base&>(*owned_)) {}
  void load(WeightProvider& weights) override { owned_->load(weights); }
  void unload() override { owned_->unload(); }

 protected:
  Base& called() {
    ++forwarded_calls();
    return op_;
  }

  std::unique_ptr<Operator> owned_;
  Base& op_;
};

// Linear, Attention, Mlp.
template <class Base>
class ForwardingRows final : public Forwarding<Base> {
 public:
  using Forwarding<Base>::Forwarding;
  void forward(const Activation& x, TensorView y, Pass& pass) override {
    this->called().forward(x, y, pass);
  }
};

class ForwardingNorm final : public Forwarding<Norm> {
 public:
  using Forwarding::Forwarding;
  void forward(TensorView x, TensorView y, Pass& pass) override { called().forward(x, y, pass); }
};

class ForwardingRope final : public Forwarding<Rope> {
 public:
  using Forwarding::Forwarding;
  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    called().forward(x, heads, pass);
  }
};

// Indexer, Compressor.
template <class Base>
class ForwardingSelection final : public Forwarding<Base> {
 public:
  using Forwarding<Base>::Forwarding;
  void forward(const Activation& x,
               TensorView q_latents,
               TensorView selected,
               Pass& pass) override {
    this->called().forward(x, q_latents, selected, pass);
  }
};

class ForwardingHyperConnection final : public Forwarding<HyperConnection> {
 public:
  using Forwarding::Forwarding;
  std::int64_t mult() const override { return op_.mult(); }
  void replicate(TensorView x, TensorView streams, Pass& pass) override {
    called().replicate(x, streams, pass);
  }
  void collapse(TensorView streams, TensorView y, TensorView mix, Pass& pass) override {
    called().collapse(streams, y, mix, pass);
  }
  void add(TensorView y, TensorView mix, TensorView streams, Pass& pass) override {
    called().add(y, mix, streams, pass);
  }
};

class ForwardingRouter final : public Forwarding<Router> {
 public:
  using Forwarding::Forwarding;
  void forward(TensorView x, Routing out, Pass& pass) override { called().forward(x, out, pass); }
  std::int64_t top_k() const override { return op_.top_k(); }
};

class ForwardingExperts final : public Forwarding<Experts> {
 public:
  using Forwarding::Forwarding;
  void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    called().forward(x, routing, y, pass);
  }
  ExpertStore host_store() const override { return op_.host_store(); }
};

class ForwardingKvCache final : public Forwarding<KvCache> {
 public:
  using Forwarding::Forwarding;
  void allocate(std::int64_t num_blocks, std::int64_t block_tokens) override {
    op_.allocate(num_blocks, block_tokens);
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
    called().write(key, value, pass);
  }
  void read_keys(const SequenceSlice& sequence, const Part& part, float* out) const override {
    op_.read_keys(sequence, part, out);
  }
  void read_values(const SequenceSlice& sequence, const Part& part, float* out) const override {
    op_.read_values(sequence, part, out);
  }
};

class ForwardingStateCache final : public Forwarding<StateCache> {
 public:
  using Forwarding::Forwarding;
  void allocate(std::int64_t num_slots) override { op_.allocate(num_slots); }
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
};

inline std::unique_ptr<Operator> forwarding(Role role, std::unique_ptr<Operator> op) {
  switch (role) {
    case Role::Norm:
      return std::make_unique<ForwardingNorm>(std::move(op));
    case Role::Linear:
      return std::make_unique<ForwardingRows<Linear>>(std::move(op));
    case Role::Rope:
      return std::make_unique<ForwardingRope>(std::move(op));
    case Role::Attention:
      return std::make_unique<ForwardingRows<Attention>>(std::move(op));
    case Role::Indexer:
      return std::make_unique<ForwardingSelection<Indexer>>(std::move(op));
    case Role::Compressor:
      return std::make_unique<ForwardingSelection<Compressor>>(std::move(op));
    case Role::HyperConnection:
      return std::make_unique<ForwardingHyperConnection>(std::move(op));
    case Role::KvCache:
      return std::make_unique<ForwardingKvCache>(std::move(op));
    case Role::StateCache:
      return std::make_unique<ForwardingStateCache>(std::move(op));
    case Role::Mlp:
    case Role::Moe:
      return std::make_unique<ForwardingRows<Mlp>>(std::move(op));
    case Role::Router:
      return std::make_unique<ForwardingRouter>(std::move(op));
    case Role::Experts:
      return std::make_unique<ForwardingExperts>(std::move(op));
    case Role::Model:
    case Role::Layer:
    case Role::Embedding:
    case Role::VisionTower:
    case Role::Projector:
      break;
  }
  GRAFT_CHECK(false, "no forwarding operator for ", name(role));
  return op;
}

// Adds "forwarding.NAME" for every operator of the registry that a layer may have.
inline void add_forwarding_operators(Registry& registry) {
  for (const OperatorInfo* replaced : registry.all()) {
    if (replaced->role == Role::Embedding || is_vision(replaced->role)) continue;
    OperatorInfo info = *replaced;
    info.name = "forwarding." + replaced->name;
    info.is_native = false;
    info.make = [replaced](const BuildContext& context) {
      return forwarding(replaced->role, replaced->make(context));
    };
    registry.add(std::move(info));
  }
}

}  // namespace graft::ops::testing
