// Sampling parameters of OpenAI's API with vLLM's extensions.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/models/config/model_config.h"
#include "graft/server/fields.h"
#include "graft/server/models/loaded_model.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::server::openai {

// Max number of logprobs per token.
inline constexpr std::int64_t kMaxAlternatives = 20;

struct Sampling {
  api::SamplingParams params = {};
  // True: not set by the request, so the model's own default applies.
  bool default_temperature = true;
  bool default_top_p = true;
  bool default_top_k = true;
  bool default_min_p = true;
  bool default_repetition_penalty = true;
  bool default_presence_penalty = true;
  bool default_frequency_penalty = true;
  std::string structured_field = {};  // of params.structured_output, for messages
  std::vector<std::string> bad_words = {};

  // With the model's defaults, without bad_words.
  api::SamplingParams for_model(const models::ModelConfig& config) const;
  // With the tokens of bad_words. Throws ApiError when there are any and the model has no
  // tokenizer.
  api::SamplingParams for_model(LoadedModel& model) const;
  // Takes the structured output of `field`, which has the form of response_format. Throws ApiError
  // 400, also when another field requested one.
  void set_response_format(const OrderedJson& format, const std::string& field);
};

// The fields that chat and text completions share: all but max_tokens and logprobs. Throws
// ApiError.
Sampling read_sampling(const Fields& fields);

// The token sequences of a word, with and without a blank before it.
std::vector<std::vector<api::TokenId>> bad_word_tokens(const tokenizer::Tokenizer& tokenizer,
                                                       const std::string& word);

// vLLM's prompt_logprobs; unset: not requested. Throws ApiError, also for a stream, which cannot
// have them.
std::optional<std::int64_t> read_prompt_logprobs(const Fields& fields, bool is_stream);

}  // namespace graft::server::openai
