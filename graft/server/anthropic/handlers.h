// Anthropic's API: /v1/messages and /v1/messages/count_tokens.

#pragma once

#include "graft/server/handler_context.h"
#include "graft/server/router.h"

namespace graft::server::anthropic {

// `context` must outlive the router.
void add_routes(Router& router, const HandlerContext& context);

}  // namespace graft::server::anthropic
