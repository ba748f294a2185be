// Ollama's paths that change the models of the server: pull, create, copy, delete.

#pragma once

#include "graft/server/handler_context.h"
#include "graft/server/library/model_library.h"
#include "graft/server/router.h"

namespace graft::server::ollama {

// `context` and `library` must outlive the router.
void add_library_routes(Router& router, const HandlerContext& context, ModelLibrary& library);

}  // namespace graft::server::ollama
