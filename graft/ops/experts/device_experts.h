// The part of a GPU in experts whose weights are in host memory (hybrid_experts.h): it keeps copies
// of some experts in slots of its memory, and copies others for a long prefill pass.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graft/ops/operator.h"

namespace graft::ops {

// One byte per expert of a layer: 1 for those of a set, else 0.
using ExpertMask = std::vector<std::uint8_t>;

class DeviceExperts {
 public:
  DeviceExperts() = default;
  DeviceExperts(const DeviceExperts&) = delete;
  DeviceExperts& operator=(const DeviceExperts&) = delete;
  virtual ~DeviceExperts() = default;

  struct Support {
    std::string problem = {};    // why the GPU computes none of the experts; empty: it does
    bool can_fill_later = true;  // copies run beside passes: slots can be refilled
  };
  // Reserves `num_slots` slots. Expert resident[i] is copied to slot i before this returns.
  virtual Support load(const ExpertStore& store,
                       std::int64_t num_slots,
                       std::span<const std::int64_t> resident,
                       WeightProvider& weights) = 0;
  virtual void unload() = 0;

  // Starts copying an expert to a slot that no expert has, after all passes so far and beside later
  // ones.
  virtual void start_fill(std::int64_t slot, std::int64_t expert, Pass& pass) = 0;
  // Whether all fills so far have ended; does not wait.
  virtual bool is_filled() = 0;
  // From the next operation on; slot -1: the expert has none.
  virtual void set_slot(std::int64_t expert, std::int64_t slot, Pass& pass) = 0;

  // y = sum over the chosen experts that have a slot. Can be captured.
  virtual void forward_resident(const Activation& x, Routing routing, TensorView y, Pass& pass) = 0;

  // At the beginning of a pass that streams: the experts of the first layer may be copied already.
  virtual void before_streamed_pass(Pass& pass) = 0;

  // Selects the experts for this GPU by the rows of each expert. Those with a slot are always
  // among them.
  using Select = std::function<ExpertMask(std::span<const std::int64_t> rows)>;
  // y = sum over the chosen experts that `select` selects; those without a slot are copied once.
  // Calls `select` when the routing is known on the host, before it launches anything that takes
  // long. Not while capturing.
  virtual void forward_streamed(
      const Activation& x, Routing routing, TensorView y, Pass& pass, const Select& select) = 0;
  virtual std::uint64_t streamed_bytes() const = 0;  // so far
};

}  // namespace graft::ops
