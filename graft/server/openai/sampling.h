// Parameters of sampling in OpenAI's words, with vLLM's additions.

#pragma once

#include "graft/api/llm.h"
#include "graft/models/config/model_config.h"
#include "graft/server/fields.h"

namespace graft::server::openai {

struct Sampling {
  api::SamplingParams params = {};
  // Not said by the request: the model's own defaults count.
  bool default_temperature = true;
  bool default_top_p = true;
  bool default_top_k = true;

  api::SamplingParams for_model(const models::ModelConfig& config) const;
};

// Throws ApiError. What both kinds of completion share; not max_tokens and logprobs.
Sampling read_sampling(const Fields& fields);

// Throws ApiError for fields that would change the answer if this server knew them.
void refuse_unsupported(const Fields& fields);

}  // namespace graft::server::openai
