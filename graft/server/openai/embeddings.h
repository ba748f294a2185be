// POST /v1/embeddings.

#pragma once

#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/server/handler_context.h"

namespace graft::server::openai {

void embeddings(const HandlerContext& context, const http::ExchangePtr& exchange);

// Little-endian float32 values as base64; OpenAI's clients request this encoding by default.
std::string base64_floats(const std::vector<float>& values);

}  // namespace graft::server::openai
