// How an MoE router scores and selects experts, as the kernels name it.

#pragma once

#include "graft/plugin_params.h"

namespace graft::kernels {

using RouterScoring = plugin::RouterParams::Scoring;
using RouterMethod = plugin::RouterParams::Method;

}  // namespace graft::kernels
