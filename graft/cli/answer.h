// Streams one answer of the model, for `graft run` and `graft chat`.

#pragma once

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/api/llm.h"

namespace graft::cli {

struct AnswerStats {
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;  // prompt tokens found in the prefix cache
  std::int64_t num_output = 0;
  std::int64_t num_draft_tokens = 0;     // guessed and verified
  std::int64_t num_accepted_tokens = 0;  // of them
  double prompt_seconds = 0;             // time to first token
  double output_seconds = 0;             // after the first token
  api::Finish finish = {};
  bool interrupted = false;
};

// Text or tokens, with the images of tokens.
struct AnswerPrompt {
  api::Prompt prompt;
  std::vector<api::PromptImage> images = {};
};

// Calls `on_text` on the caller's thread with each new text until the answer is finished. Ctrl-C
// aborts the request. Throws Error when the prompt is rejected or the engine fails.
AnswerStats stream_answer(api::LLM& llm,
                          const AnswerPrompt& prompt,
                          const api::SamplingParams& params,
                          const std::function<void(std::string_view)>& on_text);

// Prints token counts, durations and rates in the format of KTransformers and Ollama.
void print_stats(const AnswerStats& stats, std::FILE* out);

// While an instance exists, SIGINT sets a flag instead of ending the program.
class InterruptScope {
 public:
  InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  ~InterruptScope();

  static bool is_interrupted();  // since the newest instance was constructed

 private:
  struct sigaction previous_ = {};
};

}  // namespace graft::cli
