// The paths of llama.cpp's server: /completion, /infill, /props, /slots, /apply-template.

#pragma once

#include "graft/server/handler_context.h"
#include "graft/server/router.h"

namespace graft::server::llamacpp {

void add_routes(Router& router, const HandlerContext& context);

}  // namespace graft::server::llamacpp
