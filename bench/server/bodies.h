// Bodies of requests that ask for too much.

#pragma once

#include <cstddef>
#include <string>

#include "graft/base/text/json.h"

namespace graft::bench {

inline constexpr const char* kCompletions = "/v1/completions";

// `count` short texts that differ.
Json texts(std::size_t count);

// 128 prompts x n 128, logprobs: 1.5 KB of request, 15 GiB of response.
Json memory_bomb();

// `num_prompts` x `n` answers of `max_tokens` each.
Json many_answers(std::size_t num_prompts, int n, int max_tokens);

// A stream of about 1.5 KB per token.
Json large_stream(int n, int max_tokens);

// A body of about `bytes` with one long text, or with that many token ids. They cannot fit into the
// context of the bundled model.
std::string long_text(std::size_t bytes);
std::string long_token_list(std::size_t bytes);

}  // namespace graft::bench
