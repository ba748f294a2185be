// Limits on the answers of one request, checked before anything is tokenized or submitted: a small
// request can ask for very many long answers. Pure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "graft/api/llm.h"

namespace graft::server {

struct RequestLimits {
  std::int64_t max_answers = 2048;              // prompts x n; copies of a greedy sample count
  std::int64_t max_output_tokens = 1 << 20;     // over all answers
  std::size_t max_response_bytes = 64U << 20U;  // of a response that is not streamed
};

// What a request asks for.
struct RequestSize {
  std::size_t num_prompts = 1;
  // Prompt text and prompt tokens with logprobs that every answer repeats, over all prompts.
  std::size_t echo_bytes = 0;
  std::size_t num_echo_logprobs = 0;
  std::size_t num_prompt_logprobs = 0;  // of vLLM's prompt_logprobs, over all answers
  bool is_stream = false;
};

// Throws ApiError 400 with the numbers when a limit is exceeded. Returns max_tokens of one answer:
// unset stays unset where the context is the lower limit. One answer of max_model_len is always
// allowed.
std::optional<std::int64_t> check_request(const RequestSize& size,
                                          const api::SamplingParams& params,
                                          std::int64_t max_model_len,
                                          const RequestLimits& limits);

}  // namespace graft::server
