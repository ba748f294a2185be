// Sampling defaults of a model, from its generation_config.json: one rule for the server and the
// commands.

#pragma once

#include "graft/models/config/model_config.h"
#include "graft/sampling_params.h"

namespace graft::api {

// The values that the user or the request did not give.
struct UnsetSampling {
  bool temperature = true;
  bool top_p = true;
  bool top_k = true;
};

// Sets the unset values to those of the model, where it has any.
inline void use_model_sampling(const models::ModelConfig& config,
                               const UnsetSampling& unset,
                               SamplingParams& params) {
  if (unset.temperature && config.temperature) params.temperature = *config.temperature;
  if (unset.top_p && config.top_p) params.top_p = *config.top_p;
  if (unset.top_k && config.top_k) params.top_k = *config.top_k;
}

}  // namespace graft::api
