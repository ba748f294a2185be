// OpenAI's Responses API: /v1/responses, GET, DELETE and cancel of a response, its input items, and
// /v1/responses/input_tokens.

#pragma once

#include "graft/server/handler_context.h"
#include "graft/server/openai/responses/store.h"
#include "graft/server/router.h"

namespace graft::server::openai::responses {

// `context` must outlive the router, which owns the store.
void add_routes(Router& router, const HandlerContext& context, const StoreLimits& limits);

}  // namespace graft::server::openai::responses
