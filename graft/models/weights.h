// The weights of a checkpoint as operators load them: WeightStore's, with the threads to pack them,
// the cache of packed weights, and progress.

#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/models/weight_store.h"
#include "graft/ops/weight.h"
#include "graft/packing/packed_cache.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

class CheckpointWeights final : public ops::WeightProvider {
 public:
  // Weights point into the checkpoint's files: it must outlive them. With a cache, packed weights
  // are read from it and added to it.
  explicit CheckpointWeights(const Checkpoint& checkpoint,
                             ThreadPool* pool = nullptr,
                             bool repack = true,
                             packing::PackedCache* cache = nullptr)
      : store_(checkpoint), pool_(pool), repack_(repack), cache_(cache) {}

  ops::Weight get(std::string_view name) override;
  bool contains(std::string_view name) override { return store_.contains(name); }
  std::vector<ops::Weight> experts(std::string_view experts, std::string_view projection) override;
  ThreadPool* pool() override { return pool_; }
  bool may_repack() override { return repack_; }
  void release(const ops::Weight& weight) override;
  bool keeps_packed() override { return cache_ != nullptr; }
  ops::SharedBytes find_packed(const ops::Weight& weight) override;
  void keep_packed(const ops::Weight& weight, const ops::SharedBytes& panels) override;

  // Called with the bytes of the files that are loaded: a weight's when its operator releases it,
  // all that were handed out when the operator is loaded.
  void report_to(std::function<void(std::uint64_t bytes)> report) { report_ = std::move(report); }
  void finish_operator();

  // WeightStore::check().
  void check(const plan::Blueprint& blueprint) const { store_.check(blueprint); }

 private:
  WeightStore store_;
  ThreadPool* pool_;
  bool repack_;
  packing::PackedCache* cache_;  // null: none
  std::uint64_t bytes_given_ = 0;
  std::uint64_t bytes_done_ = 0;
  std::function<void(std::uint64_t bytes)> report_;
};

}  // namespace graft::models
