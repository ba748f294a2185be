// How the next token is sampled and when a sequence stops. Names and meanings are vLLM's.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graft {

using TokenId = std::int32_t;

// Below this temperature sampling is greedy.
inline constexpr double kGreedyTemperature = 1e-5;

// What the output must match. The names are vLLM's structured_outputs.
struct StructuredOutput {
  enum class Kind : std::uint8_t { JsonSchema, Regex, Choice, Grammar };

  Kind kind = Kind::JsonSchema;
  // The JSON text of a schema, a regular expression, a JSON list of texts, or a grammar in GBNF.
  std::string text = {};
  // The constraint begins right after the first of these texts in the output; nothing is
  // constrained before. Empty: at the start.
  std::vector<std::string> triggers = {};

  bool operator==(const StructuredOutput&) const = default;
};

// A step of sampling, with llama.cpp's meaning.
enum class SamplingStep : std::uint8_t { TopK, TopP, MinP, TypicalP, Temperature, Infill };

// Tokens that are guessed and then verified together, several in one step. It changes the speed and
// never the output.
struct Speculation {
  enum class Method : std::uint8_t {
    Off,
    Ngram,  // the tokens that followed an earlier occurrence of the last ones
  };

  Method method = Method::Off;
  // Guess only where measured acceptance and step times say that it pays.
  bool is_automatic = false;
  std::int64_t min_match = 3;   // Ngram: last tokens that must have occurred before
  std::int64_t max_tokens = 5;  // guessed for a sequence in a step

  bool operator==(const Speculation&) const = default;
};

struct SamplingParams {
  std::int64_t n = 1;  // samples per prompt; sample i uses seed + i

  double temperature = 1.0;
  std::int64_t top_k = 0;  // 0 and -1: off
  double top_p = 1.0;
  double min_p = 0.0;
  double typical_p = 1.0;
  // The steps that choose among the tokens, in this order; others are off. Unset: top_k,
  // temperature, min_p, top_p, typical_p.
  std::optional<std::vector<SamplingStep>> steps = {};
  double repetition_penalty = 1.0;  // over prompt and output
  double presence_penalty = 0.0;    // over the output
  double frequency_penalty = 0.0;   // over the output
  std::optional<std::uint64_t> seed = {};

  std::vector<std::pair<TokenId, float>> logit_bias = {};  // clamped to +-100
  std::vector<TokenId> allowed_token_ids = {};             // empty: all
  // Token sequences that must not appear: the last token of each is masked after the others.
  std::vector<std::vector<TokenId>> bad_words = {};
  std::optional<StructuredOutput> structured_output = {};

  std::optional<std::int64_t> max_tokens = {};  // unset: up to max_model_len
  std::int64_t min_tokens = 0;  // EOS, stop tokens and stop strings are ignored before
  bool ignore_eos = false;
  std::vector<TokenId> stop_token_ids = {};
  std::vector<std::string> stop = {};
  // Blanks that every line after the first must begin with: the output ends where one does not.
  std::int64_t min_indent = 0;
  // After this time since the first token, the output ends with its line.
  std::optional<std::int64_t> max_line_ms = {};
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;

  std::optional<std::int64_t> logprobs = {};         // top alternatives; 0: the sampled token only
  std::optional<std::int64_t> prompt_logprobs = {};  // the same for the prompt's tokens

  std::optional<Speculation> speculate = {};  // unset: EngineConfig::speculate

  bool operator==(const SamplingParams&) const = default;
  bool is_greedy() const { return temperature < kGreedyTemperature; }
};

}  // namespace graft
