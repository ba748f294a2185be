// Sampling parameters of OpenAI's API with vLLM's extensions.

#pragma once

#include <cstdint>
#include <string>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/models/config/model_config.h"
#include "graft/server/fields.h"

namespace graft::server::openai {

// Max number of logprobs per token.
inline constexpr std::int64_t kMaxAlternatives = 20;

struct Sampling {
  api::SamplingParams params = {};
  // True: not set by the request, so the model's own default applies.
  bool default_temperature = true;
  bool default_top_p = true;
  bool default_top_k = true;
  std::string structured_field = {};  // of params.structured_output, for messages

  api::SamplingParams for_model(const models::ModelConfig& config) const;
  // Takes the structured output of `field`, which has the form of response_format. Throws ApiError
  // 400, also when another field requested one.
  void set_response_format(const OrderedJson& format, const std::string& field);
};

// The fields that chat and text completions share: all but max_tokens and logprobs. Throws
// ApiError.
Sampling read_sampling(const Fields& fields);

// Throws ApiError for unsupported fields that would change the output.
void reject_unsupported(const Fields& fields);

}  // namespace graft::server::openai
