// The weights of a checkpoint of any format under their Hugging Face names, as operators ask for
// them: what GGUF permutes, merges or splits is put right here.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/formats/weight_source.h"
#include "graft/models/tensor_index.h"
#include "graft/ops/weight.h"
#include "graft/packing/packed_cache.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

class CheckpointWeights final : public ops::WeightProvider {
 public:
  // Weights point into the source's files: it must outlive them. With a cache, packed weights come
  // from it and go to it.
  explicit CheckpointWeights(const formats::WeightSource& source,
                             ThreadPool* pool = nullptr,
                             bool repack = true,
                             packing::PackedCache* cache = nullptr)
      : index_(source), pool_(pool), repack_(repack), cache_(cache) {}

  ops::Weight get(std::string_view name) override;
  bool contains(std::string_view name) override { return index_.find(name).has_value(); }
  std::vector<ops::Weight> experts(std::string_view experts, std::string_view projection) override;
  ThreadPool* pool() override { return pool_; }
  bool may_repack() override { return repack_; }
  void release(const ops::Weight& weight) override;
  bool keeps_packed() override { return cache_ != nullptr; }
  ops::SharedBytes find_packed(const ops::Weight& weight) override;
  void keep_packed(const ops::Weight& weight, const ops::SharedBytes& panels) override;

  // Called with the bytes of the file that are done with: a weight when an operator needs it no
  // longer, all that were given when it is loaded.
  void report_to(std::function<void(std::uint64_t bytes)> report) { report_ = std::move(report); }
  void finish_operator();

  // Throws one Error that names every weight of the blueprint that is missing or has another shape.
  void check(const plan::Blueprint& blueprint) const;

 private:
  std::string where() const;  // the checkpoint's first file

  TensorIndex index_;
  ThreadPool* pool_;
  bool repack_;
  packing::PackedCache* cache_;  // null: none
  std::uint64_t bytes_given_ = 0;
  std::uint64_t bytes_done_ = 0;
  std::function<void(std::uint64_t bytes)> report_;
};

}  // namespace graft::models
