// The positions that the last indexer of a pass selected, for the layers after it that have no
// indexer of their own (sparse attention with shared indexers). Each device has a buffer; a layer
// on another device than the indexer gets a copy.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/ops/pass.h"
#include "graft/tensor/tensor.h"

namespace graft::ops {

class SelectedPositions {
 public:
  // Allocates [rows, top_k] i32 in the workspace of each device; the caller frees them.
  SelectedPositions(std::span<const Device> devices,
                    std::int64_t rows,
                    std::int64_t top_k,
                    const Pass& pass);

  // Where an indexer on `device` writes. Copies on other devices become invalid.
  TensorView replace(Device device);
  // The selection on `device`. An indexer must have written one.
  TensorView on(Device device);

 private:
  struct Copy {
    TensorView positions;
    bool is_current = false;
  };
  Copy& at(Device device);

  PassDevices& devices_;
  std::vector<Copy> copies_;
};

}  // namespace graft::ops
