// GET /v1/sequences, POST /v1/sequences/ID/save and /v1/sequences/ID/restore: operators save the
// running answers of the server to files of --snapshot-dir and let them go on, also in another
// process.

#pragma once

#include "graft/server/handler_context.h"
#include "graft/server/router.h"

namespace graft::server::sequences {

// `context` must outlive the router.
void add_routes(Router& router, const HandlerContext& context);

}  // namespace graft::server::sequences
