// OpenAI's API: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, and /tokenize
// and /detokenize of vLLM and llama.cpp.

#pragma once

#include "graft/server/handler_context.h"
#include "graft/server/router.h"

namespace graft::server::openai {

// `context` must outlive the router.
void add_routes(Router& router, const HandlerContext& context);

}  // namespace graft::server::openai
