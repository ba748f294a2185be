// Images to embeddings of the text model: the vision tower and the projector, tile by tile, and for
// tiled images (LLaVA-NeXT) the arrangement of the tiles' features into rows.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/models/build/operators.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/operator.h"
#include "graft/ops/params.h"
#include "graft/ops/profiler.h"
#include "graft/plan/plan.h"
#include "graft/vision/processor.h"

namespace graft::models {

// The tokens that an image takes in the prompt.
std::int64_t num_image_tokens(const ops::VisionTowerParams& tower,
                              const vision::PreparedImage& image);

class VisionEncoder {
 public:
  // nullopt: the plan has no vision tower. Does not own the operators.
  static std::optional<VisionEncoder> make(const plan::Plan& plan, OperatorTree& operators);

  const ops::VisionTowerParams& tower() const { return tower_params_; }
  // [num_image_tokens, hidden_size] on the host. Not during a pass of the model.
  std::vector<float> encode(const vision::PreparedImage& image,
                            ThreadPool& pool,
                            ops::PassDevices& devices,
                            ops::Profiler* profiler) const;
  // Where a GPU computes images: allocates its workspace, by encoding an empty one.
  void warm_up(ThreadPool& pool, ops::PassDevices& devices) const;

 private:
  VisionEncoder() = default;
  void encode_tile(const float* pixels,
                   float* out,
                   ThreadPool& pool,
                   ops::PassDevices& devices,
                   ops::Profiler* profiler) const;
  std::vector<float> arrange(const vision::PreparedImage& image,
                             const std::vector<float>& features) const;

  ops::VisionTowerParams tower_params_;
  std::int64_t hidden_size_ = 0;
  ops::VisionTower* tower_ = nullptr;
  ops::Projector* projector_ = nullptr;
  Device tower_device_;
  Device projector_device_;
};

}  // namespace graft::models
