#include "graft/server/ollama/handlers.h"

namespace graft::server::ollama {

void add_routes(Router& /*router*/, const Backend& /*backend*/) {}

}  // namespace graft::server::ollama
