// graft perplexity: the perplexity of a model on a text. The text is tokenized as a whole and split
// into independent windows; every token except the first of a window is scored.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "graft/api/llm.h"
#include "graft/base/error.h"
#include "graft/base/progress.h"
#include "graft/cli/commands.h"
#include "graft/cli/counted.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/text_file.h"
#include "graft/models/weights/checkpoint.h"

namespace graft::cli {
namespace {

struct PerplexityOptions {
  ModelOptions model;
  std::string file;
  std::int64_t window = 0;  // 0: 1024, or less where the context of the model is shorter
  bool decode = false;
  bool json = false;
};

struct Score {
  double nll = 0;  // sum of negative log-likelihoods
  std::int64_t num_tokens = 0;

  double perplexity() const { return std::exp(nll / static_cast<double>(num_tokens)); }
};

// In groups, to show progress and to bound the memory of the logprobs.
Score score_windows(api::LLM& llm,
                    const std::vector<api::Prompt>& windows,
                    std::size_t window_bytes) {
  constexpr std::size_t kGroup = 8;
  api::SamplingParams params;
  params.temperature = 0;
  params.max_tokens = 1;
  params.prompt_logprobs = 0;
  Score score;
  Progress progress("perplexity", windows.size() * window_bytes, stderr);
  for (std::size_t first = 0; first < windows.size(); first += kGroup) {
    const std::size_t end = std::min(first + kGroup, windows.size());
    const std::vector<api::Prompt> group(windows.begin() + static_cast<std::ptrdiff_t>(first),
                                         windows.begin() + static_cast<std::ptrdiff_t>(end));
    for (const api::Output& output : llm.generate(group, params)) {
      for (const api::TokenLogprobs& token : output.prompt_logprobs)
        score.nll -= static_cast<double>(token.logprob);
      score.num_tokens += static_cast<std::int64_t>(output.prompt_logprobs.size());
    }
    progress.advance((end - first) * window_bytes, "");
  }
  progress.finish();
  return score;
}

// The window that the user gave, else 1024 or what the context of the model has room for.
std::int64_t window_of(const PerplexityOptions& options) {
  if (options.window > 0) return options.window;
  constexpr std::int64_t kDefault = 1024;
  const auto checkpoint = models::open_checkpoint(options.model.model.path());
  return std::min(kDefault, checkpoint->config().max_position_embeddings - 1);
}

void measure(PerplexityOptions& options) {
  options.window = window_of(options);
  api::LlmConfig config = options.model.config();
  config.engine.max_model_len = options.window + 1;
  config.engine.max_num_seqs = 8;
  config.engine.enable_prefix_caching = false;
  if (options.decode) config.engine.chunk_prefill_size = 1;
  const auto loaded = options.model.open(config);
  api::LLM& llm = *loaded;
  if (llm.tokenizer() == nullptr) fail("the model has no tokenizer");
  const std::string text = read_text_file(options.file);
  const std::vector<api::TokenId> tokens =
      llm.tokenizer()->encode(text, {.add_special = false, .parse_special = false});
  std::vector<api::Prompt> windows;
  const auto size = static_cast<std::ptrdiff_t>(options.window);
  for (auto begin = tokens.begin(); tokens.end() - begin >= size; begin += size)
    windows.emplace_back(std::vector<api::TokenId>(begin, begin + size));
  if (windows.empty()) {
    fail(options.file, ": has ", tokens.size(), " tokens, one window is ", options.window,
         "; use a smaller --window");
  }
  const Score score = score_windows(llm, windows, text.size() / windows.size());
  if (options.json) {
    fmt::print("{{\"perplexity\": {:.6f}, \"tokens\": {}, \"windows\": {}}}\n", score.perplexity(),
               score.num_tokens, windows.size());
  } else {
    fmt::print("perplexity {:.4f} over {} tokens in {} of {}\n", score.perplexity(),
               score.num_tokens, counted(static_cast<std::int64_t>(windows.size()), "window"),
               options.window);
  }
}

}  // namespace

void add_perplexity(Command& app) {
  auto options = std::make_shared<PerplexityOptions>();
  Command* command =
      app.add_subcommand("perplexity", "Measure the perplexity of a model on a text");
  command->add_option("FILE", options->file, "Text file; - reads standard input")->required();
  command->footer("Example:\n  graft perplexity book.txt -m model.gguf");
  options->model.add_to(*command);
  command
      ->add_option("--window", options->window,
                   "Tokens per window (default: 1024, or the context of the model)")
      ->check(Range(2, 1 << 20));
  command->add_flag("--decode", options->decode,
                    "Compute the text in decode steps, one token of a window each, as generating "
                    "does (slower)");
  command->add_flag("--json", options->json, "Print the results as JSON");
  command->callback([options] { measure(*options); });
}

}  // namespace graft::cli
