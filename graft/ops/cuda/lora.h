// Adapters of linear layers on a GPU that share an input: their additions share launches.

#pragma once

#include <span>

#include "graft/ops/lora.h"
#include "graft/ops/pass.h"
#include "graft/tensor/tensor.h"

namespace graft::ops::cuda {

struct LoraAddition {
  LoraLayer* layer = nullptr;  // of make_lora_layer() for the device of x
  TensorView y;
};
// Row 0 of x and of each y is row 0 of pass.lora.
void add_lora_group(TensorView x, std::span<const LoraAddition> additions, Pass& pass);

}  // namespace graft::ops::cuda
