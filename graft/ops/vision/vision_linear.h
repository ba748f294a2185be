// A linear layer inside a vision module: an operator that the module owns.

#pragma once

#include <memory>
#include <string>

#include "graft/ops/vision/vision_modules.h"

namespace graft::ops {

inline std::unique_ptr<Linear> make_vision_linear(const BuildContext& parent,
                                                  VisionPrimitives& primitives,
                                                  std::string_view name,
                                                  const LinearParams& params) {
  const Params held = params;
  BuildContext context;
  context.module = str(parent.module, '.', name);
  context.params = &held;
  context.device = parent.device;
  context.kwargs = parent.kwargs;
  context.primitives = parent.primitives;
  return primitives.make_linear(context);
}

}  // namespace graft::ops
