#include "graft/server/generation/request_limits.h"

#include <algorithm>
#include <string>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"

namespace graft::server {
namespace {

// Estimates; the actual bytes are limited while the response is collected.
constexpr std::size_t kBytesPerToken = 4;
constexpr std::size_t kBytesPerLogprob = 64;  // {"token", "logprob", "bytes"}

std::size_t bytes_per_token(const api::SamplingParams& params) {
  if (!params.logprobs) return kBytesPerToken;
  return kBytesPerToken + kBytesPerLogprob * (1 + static_cast<std::size_t>(*params.logprobs));
}

// Every sequence has a copy of the parameters.
std::size_t parameter_bytes(const api::SamplingParams& params) {
  std::size_t bytes =
      params.logit_bias.size() * sizeof(params.logit_bias[0]) +
      (params.allowed_token_ids.size() + params.stop_token_ids.size()) * sizeof(api::TokenId);
  for (const std::string& stop : params.stop)
    bytes += stop.size();
  for (const std::vector<api::TokenId>& word : params.bad_words)
    bytes += sizeof(std::vector<api::TokenId>) + word.size() * sizeof(api::TokenId);
  return bytes;
}

std::string answers_text(std::size_t num_prompts, std::int64_t n) {
  return str(num_prompts, num_prompts == 1 ? " prompt" : " prompts", " x n ", n);
}

void check_bytes(std::size_t num_bytes,
                 std::size_t max_bytes,
                 const std::string& what,
                 const std::string& advice) {
  if (num_bytes <= max_bytes) return;
  throw ApiError(400,
                 str(what, " needs about ", num_bytes, " bytes, max ", max_bytes,
                     " (--max-response-mib); ", advice),
                 {}, "response_too_large");
}

}  // namespace

std::optional<std::int64_t> check_request(const RequestSize& size,
                                          const api::SamplingParams& params,
                                          std::int64_t max_model_len,
                                          const RequestLimits& limits) {
  const auto num_prompts = static_cast<std::int64_t>(size.num_prompts);
  const std::int64_t num_answers = num_prompts * params.n;
  const std::string answers = answers_text(size.num_prompts, params.n);
  if (num_answers > limits.max_answers) {
    throw ApiError(400,
                   str(answers, " is ", num_answers, " answers, max per request ",
                       limits.max_answers, " (--max-answers)"),
                   "n", "too_many_answers");
  }
  const std::int64_t max_tokens = std::max(limits.max_output_tokens, max_model_len);
  const std::int64_t per_answer = max_tokens / num_answers;
  // min: max_tokens may be as large as an int64.
  const std::int64_t asked = std::min(params.max_tokens.value_or(0), max_model_len);
  if (asked > per_answer) {
    throw ApiError(400,
                   str(answers, " x max_tokens ", asked, " is ", num_answers * asked,
                       " output tokens, max per request ", max_tokens, " (--max-output-tokens)"),
                   "max_tokens", "too_many_output_tokens");
  }
  const auto count = static_cast<std::size_t>(num_answers);
  const auto n = static_cast<std::size_t>(params.n);
  check_bytes(parameter_bytes(params) * count, limits.max_response_bytes,
              str(answers, " with these stop strings, bad_words, logit_bias and token ids"),
              "ask for fewer answers or shorter lists");
  const std::size_t echo_bytes =
      n * (size.echo_bytes + size.num_echo_logprobs * bytes_per_token(params)) +
      size.num_prompt_logprobs * kBytesPerLogprob;
  const std::size_t output_bytes =
      size.is_stream ? 0 : count * static_cast<std::size_t>(asked) * bytes_per_token(params);
  check_bytes(echo_bytes + output_bytes, limits.max_response_bytes,
              str("a response of ", answers, " x max_tokens ", asked),
              "stream it, or ask for fewer answers, tokens or logprobs");
  if (params.max_tokens || per_answer >= max_model_len) return params.max_tokens;
  return per_answer;
}

}  // namespace graft::server
