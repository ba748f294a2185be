// graft run --batch: runs the requests of a file concurrently and writes the answers in order.

#pragma once

#include <string>
#include <vector>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/cli/options/sampling_options.h"

namespace graft::cli {

struct BatchLine {
  OrderedJson id;                  // custom_id of the line; null: none
  std::string prompt;              // used when `raw`
  api::Conversation conversation;  // used otherwise
  api::SamplingParams params;
  bool raw = false;
};

// Every line is an object with "prompt" (a user message, or with `raw` the text to continue) or
// "messages", and optionally custom_id, tools, max_tokens, temperature, top_p, top_k, min_p, seed
// and stop. OpenAI's batch format, with these keys under "body", is accepted. Throws Error with the
// number of the first invalid line.
std::vector<BatchLine> read_batch(const std::string& file,
                                  const SamplingOptions& sampling,
                                  bool raw);

// Writes one JSON line per request, in order, to the file `output` (atomically, at the end) or,
// when empty, to standard output as they finish. A failed request becomes a line with "error".
// Returns the exit code: 0, 1 when a request failed, 130 after Ctrl-C.
int run_batch(api::LLM& llm,
              const std::vector<BatchLine>& lines,
              const std::string& chat_template,
              const std::string& output);

}  // namespace graft::cli
