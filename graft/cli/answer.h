// An answer as it comes, for the commands that talk.

#pragma once

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "graft/api/llm.h"

namespace graft::cli {

struct AnswerStats {
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;  // of the prompt
  std::int64_t num_output = 0;
  double prompt_seconds = 0;  // until the first token
  double output_seconds = 0;  // from there on
  api::Finish finish = {};
  bool interrupted = false;
};

// Hands the text to `on_text` on the caller's thread, piece by piece, until the answer ends. Ctrl-C
// ends it early. Throws Error when the prompt can never run or the engine failed.
AnswerStats stream_answer(api::LLM& llm,
                          const api::Prompt& prompt,
                          const api::SamplingParams& params,
                          const std::function<void(std::string_view)>& on_text);

// Counts, durations and rates, as KTransformers and Ollama print them.
void print_stats(const AnswerStats& stats, std::FILE* out);

// While it lives, Ctrl-C sets a flag instead of ending the program.
class InterruptScope {
 public:
  InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  ~InterruptScope();

  static bool is_interrupted();  // since the newest scope began

 private:
  struct sigaction previous_ = {};
};

}  // namespace graft::cli
