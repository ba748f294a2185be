// The vision tower and the projector of multimodal models, written once over what a device provides
// (VisionPrimitives). Their linear layers are the linear operators of the device.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "graft/ops/operator.h"
#include "graft/ops/registry.h"

namespace graft::ops {

class VisionPrimitives {
 public:
  VisionPrimitives() = default;
  VisionPrimitives(const VisionPrimitives&) = delete;
  VisionPrimitives& operator=(const VisionPrimitives&) = delete;
  virtual ~VisionPrimitives() = default;

  virtual std::unique_ptr<Linear> make_linear(const BuildContext& context) = 0;
  // The layer norm of the module `name`, with weight and bias.
  virtual std::unique_ptr<Norm> make_layer_norm(const std::string& name,
                                                const NormParams& params,
                                                Device device) = 0;
  // Attention without a mask among the `num_tokens` rows of each tile; q, k, v and out are [tiles *
  // num_tokens, heads * head_dim].
  struct Heads {
    std::int64_t num_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t num_tokens = 0;
  };
  virtual void attend(
      TensorView q, TensorView k, TensorView v, TensorView out, const Heads& heads, Pass& pass) = 0;
  virtual void activate(TensorView x, VisionTowerParams::Activation activation, Pass& pass) = 0;
};

std::unique_ptr<Operator> make_vision_tower(const BuildContext& context,
                                            std::unique_ptr<VisionPrimitives> primitives);
std::unique_ptr<Operator> make_projector(const BuildContext& context,
                                         std::unique_ptr<VisionPrimitives> primitives);

}  // namespace graft::ops
