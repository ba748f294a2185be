#include "graft/cli/bench/bench_speculate.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "graft/api/llm.h"
#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/cli/bench/bench_workload.h"
#include "graft/cli/text_file.h"
#include "graft/engine/speculation/speculation.h"

namespace graft::cli {
namespace {

// A file and its beginning once more, which models continue with the file: code that is edited.
constexpr const char* kSourceFile =
    "def area(width, height):\n    return width * height\n\n"
    "def perimeter(width, height):\n    return 2 * (width + height)\n\n"
    "def describe(name, width, height):\n"
    "    print(name, \"has an area of\", area(width, height))\n"
    "    print(name, \"has a perimeter of\", perimeter(width, height))\n\n"
    "describe(\"The garden\", 12, 30)\ndescribe(\"The house\", 8, 15)\n"
    "describe(\"The field\", 120, 80)\n";

// The decode steps of one batch.
struct SpeculationRound {
  double tokens_per_s = 0;
  SpeculationStats drafts = {};
};

struct SpeculationResult {
  std::int64_t batch_size = 0;
  std::int64_t num_tokens = 0;
  double without = 0;
  SpeculationRound with;

  double speed_up() const { return with.tokens_per_s / std::max(without, 1e-9); }
  double acceptance() const {
    return static_cast<double>(with.drafts.num_accepted_tokens) /
           static_cast<double>(std::max<std::int64_t>(with.drafts.num_draft_tokens, 1));
  }
  // Tokens that a step with a draft gives.
  double tokens_per_draft() const {
    return 1 + static_cast<double>(with.drafts.num_accepted_tokens) /
                   static_cast<double>(std::max<std::int64_t>(with.drafts.num_drafts, 1));
  }
};

// Without its beginning where the context is short: `room` tokens.
Tokens repeated_prompt(const api::LLM& llm, const std::string& file, std::int64_t room) {
  Tokens prompt;
  if (llm.tokenizer() == nullptr) {
    Workload workload(llm);
    prompt = workload.tokens(128);
    const Tokens again(prompt.begin(), prompt.begin() + 32);
    prompt.insert(prompt.end(), again.begin(), again.end());
  } else {
    const std::string text = kSourceFile;
    prompt = llm.tokenizer()->encode(file.empty() ? text + "\n" + text.substr(0, 60)
                                                  : read_text_file(file));
  }
  const std::int64_t excess = std::ssize(prompt) - std::max<std::int64_t>(room, 1);
  if (excess > 0) prompt.erase(prompt.begin(), prompt.begin() + excess);
  return prompt;
}

SpeculationStats difference(const SpeculationStats& from, SpeculationStats to) {
  to.num_drafts -= from.num_drafts;
  to.num_draft_tokens -= from.num_draft_tokens;
  to.num_accepted_tokens -= from.num_accepted_tokens;
  for (std::size_t i = 0; i < from.accepted_by_position.size(); ++i)
    to.accepted_by_position[i] -= from.accepted_by_position[i];
  return to;
}

SpeculationRound decode_round(api::LLM& llm,
                              const std::vector<api::Prompt>& prompts,
                              const api::SamplingParams& params) {
  const SpeculationStats before = llm.stats().speculation;
  const auto start = std::chrono::steady_clock::now();
  const auto outputs = llm.generate(prompts, params);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double last_start = 0;  // of decoding: the first token of the slowest prompt
  std::int64_t num_tokens = 0;
  for (const auto& output : outputs) {
    last_start = std::max(last_start, output.samples[0].timings.first_token_seconds);
    num_tokens += std::ssize(output.samples[0].tokens) - 1;
  }
  seconds = std::max(seconds - last_start, 1e-9);
  return {.tokens_per_s = static_cast<double>(num_tokens) / seconds,
          .drafts = difference(before, llm.stats().speculation)};
}

// The round of median speed.
SpeculationRound median_round(std::vector<SpeculationRound> rounds) {
  std::ranges::sort(rounds, {}, &SpeculationRound::tokens_per_s);
  return rounds[rounds.size() / 2];
}

SpeculationResult measure_speculation(api::LLM& llm,
                                      const Tokens& prompt,
                                      std::int64_t batch_size,
                                      std::int64_t num_tokens,
                                      const BenchSpeculateOptions& options) {
  const std::vector<api::Prompt> prompts(static_cast<std::size_t>(batch_size), prompt);
  api::SamplingParams plain = generate_exactly(num_tokens + 1);
  plain.speculate = Speculation();
  api::SamplingParams speculating = plain;
  speculating.speculate = engine::parse_speculation(options.speculate.text);
  decode_round(llm, prompts,
               speculating);  // warm-up; the prompts are in the prefix cache from here on
  // Alternating, so that other work on the machine slows down both alike.
  std::vector<SpeculationRound> without;
  std::vector<SpeculationRound> with;
  for (std::int64_t i = 0; i < options.rounds; ++i) {
    without.push_back(decode_round(llm, prompts, plain));
    with.push_back(decode_round(llm, prompts, speculating));
  }
  return {.batch_size = batch_size,
          .num_tokens = num_tokens,
          .without = median_round(without).tokens_per_s,
          .with = median_round(with)};
}

OrderedJson speculation_json(const SpeculationResult& result) {
  return {{"batch", result.batch_size},
          {"tokens", result.num_tokens},
          {"decode_tokens_per_s", result.without},
          {"speculating_tokens_per_s", result.with.tokens_per_s},
          {"speed_up", result.speed_up()},
          {"drafts", result.with.drafts.num_drafts},
          {"draft_tokens", result.with.drafts.num_draft_tokens},
          {"accepted_tokens", result.with.drafts.num_accepted_tokens},
          {"acceptance", result.acceptance()},
          {"accepted_by_position", result.with.drafts.accepted_by_position}};
}

void print_speculation(const SpeculationResult& result) {
  fmt::print("{:>9} {:>9} {:>12.1f} {:>12.1f} {:>9.2f} {:>10.1f} % {:>14.2f}\n", result.batch_size,
             result.num_tokens, result.without, result.with.tokens_per_s, result.speed_up(),
             100 * result.acceptance(), result.tokens_per_draft());
}

}  // namespace

void bench_speculate(const ModelOptions& model, const BenchSpeculateOptions& options) {
  if (engine::parse_speculation(options.speculate.text).method == Speculation::Method::Off)
    fail("bench --speculate: off is what is compared with; pass ngram or auto");
  api::LlmConfig config = model.config();
  config.engine.max_num_seqs = std::ranges::max(options.batch_sizes);
  if (config.engine.max_num_seqs < 1 || std::ranges::max(options.generated) < 1)
    fail("bench --speculate: nothing to measure with these values of -n and -b");
  const auto llm = model.open(config);
  const Tokens prompt =
      repeated_prompt(*llm, options.prompt_file,
                      llm->config().max_model_len - std::ranges::max(options.generated) - 2);
  OrderedJson results = OrderedJson::array();
  if (!options.json) {
    fmt::print("--speculate {}, decode tok/s, median of {} rounds\n", options.speculate.text,
               options.rounds);
    fmt::print("{:>9} {:>9} {:>12} {:>12} {:>9} {:>12} {:>14}\n", "batch", "tokens", "without",
               "with", "speed-up", "accepted", "tokens/draft");
  }
  for (const std::int64_t num_tokens : options.generated) {
    for (const std::int64_t batch_size : options.batch_sizes) {
      if (num_tokens < 1 || batch_size < 1) continue;
      const SpeculationResult result =
          measure_speculation(*llm, prompt, batch_size, num_tokens, options);
      results.push_back(speculation_json(result));
      if (!options.json) print_speculation(result);
    }
  }
  if (options.json) {
    const OrderedJson json = {{"speculate", options.speculate.text}, {"results", results}};
    fmt::print("{}\n", json.dump(2));
  }
}

}  // namespace graft::cli
