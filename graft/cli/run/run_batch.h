// graft run --batch: runs the requests of a file concurrently and writes the answers in order.

#pragma once

#include <string>
#include <vector>

#include "graft/cli/run/batch_lines.h"
#include "graft/server/local/local_api.h"

namespace graft::cli {

// Writes one JSON line per request, in order, to the file `output` (atomically, at the end) or,
// when empty, to standard output as they finish. A failed request becomes a line with "error";
// requests in OpenAI's form get results in that form. Returns the exit code: 0, 1 when a request
// failed, 130 after Ctrl-C.
int run_batch(server::LocalApi& api, std::vector<BatchLine> lines, const std::string& output);

}  // namespace graft::cli
