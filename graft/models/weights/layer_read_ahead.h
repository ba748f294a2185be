// Reads the weights of a model ahead that stay in the cache file (packing::DiskPanels): while a
// layer computes, those of the next one are read. Routed experts are not included: the operator
// requests those that the router selects.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/packing/disk_panels.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

class LayerReadAhead {
 public:
  using Panels = std::shared_ptr<const packing::DiskPanels>;

  LayerReadAhead() = default;  // reads nothing: all weights are in memory
  LayerReadAhead(const plan::Blueprint& blueprint, std::span<const Panels> panels);

  bool empty() const { return layers_.empty(); }
  // Call before layer `layer` runs, and with the number of layers before the head. Requests the
  // weights of the next layer and verifies those of this one. Throws Error for damaged weights.
  void begin_layer(std::size_t layer, ThreadPool& pool) const;

 private:
  std::vector<std::vector<Panels>> layers_;  // by layer; the last entry is the head's
};

}  // namespace graft::models
