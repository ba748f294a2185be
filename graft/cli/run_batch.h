// graft run --batch: many prompts from a file, answered side by side, written in order.

#pragma once

#include <string>
#include <vector>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/cli/options/sampling_options.h"

namespace graft::cli {

struct BatchLine {
  OrderedJson id;                  // custom_id of the line, null without
  std::string prompt;              // raw text, when there are no messages
  api::Conversation conversation;  // otherwise
  api::SamplingParams params;
  bool raw = false;
};

// Every line is an object with "prompt" (a question, or with `raw` text to continue) or "messages",
// and may have custom_id, tools, max_tokens, temperature, top_p, top_k, min_p, seed and stop;
// OpenAI's batch form, with those under "body", is understood. Throws Error that names the first
// line that is none of that.
std::vector<BatchLine> read_batch(const std::string& file,
                                  const SamplingOptions& sampling,
                                  bool raw);

// One line of JSON for each, in their order, to the file `output` (which appears whole or not at
// all) or as they come to standard output. A request that cannot run becomes a line with "error"
// and the result 1; otherwise 0, or 130 after Ctrl-C.
int run_batch(api::LLM& llm,
              const std::vector<BatchLine>& lines,
              const std::string& chat_template,
              const std::string& output);

}  // namespace graft::cli
