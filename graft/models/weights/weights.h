// The WeightProvider of a checkpoint: WeightStore looks weights up, Packer packs them, and this
// class reports progress.

#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/models/weights/weight_store.h"
#include "graft/ops/weight.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

class CheckpointWeights final : public ops::WeightProvider {
 public:
  // Weights point into the mapped files, so the checkpoint must outlive them. packer null: weights
  // are not packed.
  explicit CheckpointWeights(const Checkpoint& checkpoint, packing::Packer* packer = nullptr)
      : store_(checkpoint), packer_(packer) {}

  ops::Weight get(std::string_view name) override;
  bool contains(std::string_view name) override { return store_.contains(name); }
  std::vector<ops::Weight> experts(std::string_view experts, std::string_view projection) override;
  packing::Packer* packer() override { return packer_; }
  void release(const ops::Weight& weight) override;
  // Every text once: operators of many layers have the same to say.
  void warn(const std::string& line) override;

  // `report` receives the total file bytes loaded so far: when an operator releases a weight, and
  // in finish_operator() for all weights it has requested.
  void report_to(std::function<void(std::uint64_t bytes)> report) { report_ = std::move(report); }
  void finish_operator();
  void warn_with(std::function<void(const std::string& line)> warn) { warn_ = std::move(warn); }

  // See WeightStore::check().
  void check(const plan::Blueprint& blueprint) const { store_.check(blueprint); }

 private:
  WeightStore store_;
  packing::Packer* packer_;
  std::uint64_t bytes_given_ = 0;
  std::uint64_t bytes_done_ = 0;
  std::function<void(std::uint64_t bytes)> report_;
  std::function<void(const std::string& line)> warn_;
  std::set<std::string> warned_;
};

}  // namespace graft::models
