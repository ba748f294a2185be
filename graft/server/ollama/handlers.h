// Ollama's paths under /api: chat, generate, embed, tags, show, ps, version.

#pragma once

#include "graft/server/backend.h"
#include "graft/server/router.h"

namespace graft::server::ollama {

// The backend must outlive the router.
void add_routes(Router& router, const HandlerContext& backend);

}  // namespace graft::server::ollama
