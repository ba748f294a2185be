// For tests: the part of a test device in experts whose weights are in host memory, with the
// contract of a GPU's. It computes with the weights of the CPU operator, and checks that an expert
// is computed from a slot only when its copy has arrived there.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/ops/experts/device_experts.h"
#include "graft/ops/registry.h"
#include "graft/testing/test_context.h"

namespace graft::ops::testing {

// What the hybrid experts of all test devices have done; set it to {} before a test.
struct TestExpertCounts {
  std::int64_t streamed_rows = 0;   // of passes that copied experts, all layers
  std::int64_t streamed_pairs = 0;  // computed with copied experts
  std::int64_t resident_pairs = 0;  // computed from slots
  std::int64_t fills = 0;           // started after load
};

inline TestExpertCounts& test_expert_counts() {
  static TestExpertCounts counts;
  return counts;
}

class DeviceExpertsForTests final : public DeviceExperts {
 public:
  explicit DeviceExpertsForTests(const BuildContext& context)
      : module_(context.module),
        device_(context.device),
        num_experts_(context.params_as<ExpertsParams>().num_experts),
        experts_(dynamic_cast<Experts&>(*context.host_op)) {}

  Support load(const ExpertStore& store,
               std::int64_t num_slots,
               std::span<const std::int64_t> resident,
               WeightProvider& /*weights*/) override {
    GRAFT_CHECK(!store.empty(), module_, ": no weights in host memory");
    in_slot_.assign(resident.begin(), resident.end());
    GRAFT_CHECK(in_slot_.size() == static_cast<std::size_t>(num_slots), "slots without an expert");
    slot_of_.assign(static_cast<std::size_t>(num_experts_), -1);
    for (std::size_t slot = 0; slot < in_slot_.size(); ++slot)
      slot_of_[static_cast<std::size_t>(in_slot_[slot])] = static_cast<std::int64_t>(slot);
    return {};
  }
  void unload() override {
    in_slot_.clear();
    slot_of_.clear();
  }

  // Arrives at the second call of is_filled().
  void start_fill(std::int64_t slot, std::int64_t expert, Pass& /*pass*/) override {
    GRAFT_CHECK(std::ranges::count(slot_of_, slot) == 0, "the slot is in use");
    test_fault().count_operation();
    in_slot_[static_cast<std::size_t>(slot)] = -1;
    arriving_[slot] = expert;
    num_asked_ = 0;
    ++test_expert_counts().fills;
  }
  bool is_filled() override {
    if (++num_asked_ < 2) return false;
    for (const auto& [slot, expert] : arriving_)
      in_slot_[static_cast<std::size_t>(slot)] = expert;
    arriving_.clear();
    return true;
  }
  void set_slot(std::int64_t expert, std::int64_t slot, Pass& /*pass*/) override {
    slot_of_[static_cast<std::size_t>(expert)] = slot;
  }

  void forward_resident(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    expect_here(x.f32, routing, y);
    test_context(device_, pass).run(pass, [this, x, routing, y](Pass& there) {
      test_expert_counts().resident_pairs +=
          compute(x, routing, y, there, [&](std::size_t expert) { return is_resident(expert); });
    });
  }

  void before_streamed_pass(Pass& /*pass*/) override {}
  void forward_streamed(const Activation& x,
                        Routing routing,
                        TensorView y,
                        Pass& pass,
                        const Select& select) override {
    expect_here(x.f32, routing, y);
    GRAFT_CHECK(!test_context(device_, pass).is_capturing(), "the host waits for the routing");
    std::vector<std::int64_t> rows(static_cast<std::size_t>(num_experts_), 0);
    const auto* ids = routing.expert_ids.as<std::int32_t>();
    for (std::int64_t i = 0; i < routing.expert_ids.num_elems(); ++i)
      if (ids[i] >= 0) ++rows[static_cast<std::size_t>(ids[i])];
    const ExpertMask is_selected = select(rows);
    for (std::size_t e = 0; e < rows.size(); ++e)
      GRAFT_CHECK(!is_resident(e) || is_selected[e] != 0, "expert ", e, " has a slot");
    test_expert_counts().streamed_rows += x.rows();
    test_context(device_, pass).run(pass, [this, x, routing, y, is_selected](Pass& there) {
      test_expert_counts().streamed_pairs += compute(
          x, routing, y, there, [&](std::size_t expert) { return is_selected[expert] != 0; });
    });
  }

  std::uint64_t streamed_bytes() const override { return 0; }

 private:
  void expect_here(TensorView x, Routing routing, TensorView y) const {
    for (const TensorView& view : {x, routing.expert_ids, routing.weights, y})
      expect_on(device_, view, module_);
  }

  bool is_resident(std::size_t expert) const {
    const std::int64_t slot = slot_of_[expert];
    GRAFT_CHECK(
        slot < 0 || in_slot_[static_cast<std::size_t>(slot)] == static_cast<std::int64_t>(expert),
        module_, ": slot ", slot, " does not hold expert ", expert);
    return slot >= 0;
  }

  // The experts for which is_here(expert) holds; returns the number of their pairs.
  template <class IsHere>
  std::int64_t compute(
      const Activation& x, Routing routing, TensorView y, Pass& pass, const IsHere& is_here) {
    const Workspace::Scope scope(pass.workspace);
    const TensorView ids =
        pass.workspace.allocate(DType::I32, {routing.expert_ids.rows(), routing.expert_ids.cols()});
    const auto* from = routing.expert_ids.as<std::int32_t>();
    std::int64_t num_pairs = 0;
    for (std::int64_t i = 0; i < ids.num_elems(); ++i) {
      const bool is_kept = from[i] >= 0 && is_here(static_cast<std::size_t>(from[i]));
      ids.as<std::int32_t>()[i] = is_kept ? from[i] : -1;
      num_pairs += is_kept ? 1 : 0;
    }
    experts_.forward(x, {.expert_ids = ids, .weights = routing.weights}, y, pass);
    return num_pairs;
  }

  std::string module_;
  Device device_;
  std::int64_t num_experts_;
  Experts& experts_;                               // holds the weights
  std::vector<std::int64_t> in_slot_;              // the expert in each slot; -1: on its way
  std::vector<std::int64_t> slot_of_;              // by expert; -1: none
  std::map<std::int64_t, std::int64_t> arriving_;  // experts by slot
  int num_asked_ = 0;
};

}  // namespace graft::ops::testing
