// graft run --batch: runs the requests of a file concurrently and writes the answers in order.

#pragma once

#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/cli/run/batch_lines.h"

namespace graft::cli {

// Writes one JSON line per request, in order, to the file `output` (atomically, at the end) or,
// when empty, to standard output as they finish. A failed request becomes a line with "error";
// requests in OpenAI's form get results in that form. Returns the exit code: 0, 1 when a request
// failed, 130 after Ctrl-C.
int run_batch(api::LLM& llm,
              const std::vector<BatchLine>& lines,
              const std::string& chat_template,
              const std::string& output);

}  // namespace graft::cli
