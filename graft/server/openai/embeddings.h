// POST /v1/embeddings.

#pragma once

#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/server/backend.h"

namespace graft::server::openai {

void embeddings(const HandlerContext& backend, const http::ExchangePtr& exchange);

// Little-endian floats as base64, as OpenAI's clients ask for them by default.
std::string base64_floats(const std::vector<float>& values);

}  // namespace graft::server::openai
