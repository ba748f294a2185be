// Fields that Ollama's requests share: options, keep_alive, think.

#pragma once

#include <optional>

#include "graft/api/chat_format.h"
#include "graft/models/config/model_config.h"
#include "graft/server/fields.h"

namespace graft::server::ollama {

struct Options {
  api::SamplingParams params = {};
  // True: not set by the request.
  bool default_temperature = true;
  bool default_top_p = true;
  bool default_top_k = true;
  std::optional<std::int64_t> num_ctx = {};  // max tokens of prompt and output

  // Fills unset values with the model's defaults, then with Ollama's.
  api::SamplingParams for_model(const models::ModelConfig& config) const;
};

// Throws ApiError. Options that would change the output and are not supported are rejected, as are
// unknown ones; those that only place a model (num_gpu, num_thread …) have no effect.
Options read_options(const Fields& request);

// Ends the output where prompt and output have num_ctx tokens. Throws ApiError when the prompt
// alone has as many.
void limit_context(std::optional<std::int64_t> num_ctx,
                   std::size_t num_prompt_tokens,
                   api::SamplingParams& params);

// Seconds, from a number or a string like "5m", "1h30m", "-1"; negative: keep loaded. Throws
// ApiError.
std::optional<double> read_keep_alive(const Fields& fields);

// true, false, or a reasoning effort ("low" …), which is stored in `template_variables`.
api::Thinking read_thinking(const Fields& fields, OrderedJson& template_variables);

// Throws ApiError for unsupported fields that would change the output.
void reject_unsupported(const Fields& fields);

}  // namespace graft::server::ollama
