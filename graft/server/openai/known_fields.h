// The fields of requests that generate text, in the spellings of OpenAI, vLLM, llama.cpp and
// SGLang: none is accepted and ignored that would change the output.

#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "graft/server/fields.h"

namespace graft::server::openai {

// `own` are the fields that the API reads beside read_sampling()'s. Throws ApiError 400 for others,
// unless they ask for nothing or cannot change the output.
void check_known(const Fields& fields, std::span<const std::string_view> own);
inline void check_known(const Fields& fields, std::initializer_list<std::string_view> own) {
  check_known(fields, std::span(own.begin(), own.size()));
}

}  // namespace graft::server::openai
