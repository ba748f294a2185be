// OpenAI's paths: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, and the two
// for tokens that vLLM and llama.cpp add.

#pragma once

#include "graft/server/backend.h"
#include "graft/server/router.h"

namespace graft::server::openai {

// The backend must outlive the router.
void add_routes(Router& router, const HandlerContext& backend);

}  // namespace graft::server::openai
