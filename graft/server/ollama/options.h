// What Ollama's requests have in common: options, how long a model stays, whether it thinks.

#pragma once

#include <optional>

#include "graft/api/chat_format.h"
#include "graft/models/config/model_config.h"
#include "graft/server/fields.h"

namespace graft::server::ollama {

struct Options {
  api::SamplingParams params = {};
  bool default_temperature = true;
  bool default_top_p = true;
  bool default_top_k = true;

  // What the request does not say the model does, and then Ollama.
  api::SamplingParams for_model(const models::ModelConfig& config) const;
};

// Throws ApiError.
Options read_options(const Fields& request);

// Seconds, or "5m", "1h30m", "-1"; negative: for ever. Throws ApiError.
std::optional<double> read_keep_alive(const Fields& fields);

// true, false, or how much ("low" …).
api::Thinking read_thinking(const Fields& fields, OrderedJson& template_variables);

// Throws ApiError for what would change the answer and is not supported.
void refuse_unsupported(const Fields& fields);

}  // namespace graft::server::ollama
