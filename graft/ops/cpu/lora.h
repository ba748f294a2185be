// Adapters of linear layers on the CPU that share an input: their additions share a parallel loop.

#pragma once

#include <span>

#include "graft/ops/lora.h"
#include "graft/ops/pass.h"
#include "graft/tensor/tensor.h"

namespace graft::ops::cpu {

struct LoraAddition {
  LoraLayer* layer = nullptr;  // of make_lora_layer()
  TensorView y;
};
// Row 0 of x and of each y is row 0 of pass.lora. The same bits as LoraLayer::add() of each layer.
void add_lora_group(TensorView x, std::span<const LoraAddition> additions, Pass& pass);

}  // namespace graft::ops::cpu
