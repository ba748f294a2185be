// Ollama's API under /api: chat, generate, embed, tags, show, ps, version.

#pragma once

#include "graft/server/handler_context.h"
#include "graft/server/router.h"

namespace graft::server::ollama {

// `context` must outlive the router.
void add_routes(Router& router, const HandlerContext& context);

}  // namespace graft::server::ollama
