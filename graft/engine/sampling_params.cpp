#include "graft/engine/sampling_params.h"

#include <algorithm>
#include <cmath>

#include "graft/base/error.h"

namespace graft::engine {
namespace {

class Checker {
 public:
  explicit Checker(std::int64_t vocab_size) : vocab_size_(vocab_size) {}

  void require(bool holds, std::string_view name, auto value, std::string_view expected) {
    if (holds || ++num_problems_ > kMaxProblems) return;
    problems_ += str(problems_.empty() ? "" : "; ", name, " is ", value, ", expected ", expected);
  }
  void token(TokenId id, std::string_view name) {
    if (id < 0 || id >= vocab_size_)
      require(false, name, id, str("a token id below ", vocab_size_));
  }
  // The lists are scanned for every sampled token; without duplicates they fit the vocabulary.
  void list(std::size_t size, std::string_view name) {
    require(static_cast<std::int64_t>(size) <= vocab_size_, str("the length of ", name), size,
            "at most the vocabulary size");
  }
  void finish() const {
    if (problems_.empty()) return;
    if (num_problems_ <= kMaxProblems) fail(problems_);
    fail(problems_, "; and ", num_problems_ - kMaxProblems, " more");
  }

 private:
  // Keeps the message short when a long list is invalid.
  static constexpr int kMaxProblems = 8;

  std::int64_t vocab_size_;
  std::string problems_;
  int num_problems_ = 0;
};

void check_ranges(const SamplingParams& params, Checker& check) {
  const auto in = [](double value, double low, double high) {
    return value >= low && value <= high;  // false for NaN
  };
  check.require(params.n >= 1, "n", params.n, "at least 1");
  check.require(params.n == 1 || !params.is_greedy(), "n", params.n,
                "1 with greedy sampling (temperature 0)");
  check.require(in(params.temperature, 0, 1e3), "temperature", params.temperature, "0 to 1000");
  check.require(params.top_k >= -1, "top_k", params.top_k, "-1 (off) or more");
  check.require(in(params.top_p, 0, 1) && params.top_p > 0, "top_p", params.top_p,
                "above 0 and up to 1");
  check.require(in(params.min_p, 0, 1), "min_p", params.min_p, "0 to 1");
  check.require(in(params.typical_p, 0, 1) && params.typical_p > 0, "typical_p", params.typical_p,
                "above 0 and up to 1");
  check.require(in(params.repetition_penalty, 1e-3, 1e3), "repetition_penalty",
                params.repetition_penalty, "above 0");
  check.require(in(params.presence_penalty, -2, 2), "presence_penalty", params.presence_penalty,
                "-2 to 2");
  check.require(in(params.frequency_penalty, -2, 2), "frequency_penalty", params.frequency_penalty,
                "-2 to 2");
  check.require(params.max_tokens.value_or(1) >= 1, "max_tokens", params.max_tokens.value_or(1),
                "at least 1");
  check.require(params.min_indent >= 0, "min_indent", params.min_indent, "0 or more");
  check.require(params.max_line_ms.value_or(0) >= 0, "max_line_ms", params.max_line_ms.value_or(0),
                "0 or more");
  check.require(params.min_tokens >= 0, "min_tokens", params.min_tokens, "0 or more");
  check.require(params.min_tokens <= params.max_tokens.value_or(params.min_tokens), "min_tokens",
                params.min_tokens, "at most max_tokens");
}

}  // namespace

void validate(const SamplingParams& params, std::int64_t vocab_size) {
  Checker check(vocab_size);
  check_ranges(params, check);
  for (const auto& [name, count] : {std::pair{"logprobs", params.logprobs},
                                    std::pair{"prompt_logprobs", params.prompt_logprobs}}) {
    const std::int64_t value = count.value_or(0);
    check.require(value >= 0 && value <= vocab_size, name, value, "0 to the vocabulary size");
  }
  check.list(params.logit_bias.size(), "logit_bias");
  check.list(params.allowed_token_ids.size(), "allowed_token_ids");
  check.list(params.stop_token_ids.size(), "stop_token_ids");
  for (const auto& [id, bias] : params.logit_bias) {
    check.token(id, "a token of logit_bias");
    check.require(!std::isnan(bias), "a logit_bias", bias, "a number");
  }
  for (const TokenId id : params.allowed_token_ids)
    check.token(id, "one of allowed_token_ids");
  for (const TokenId id : params.stop_token_ids)
    check.token(id, "one of stop_token_ids");
  for (const std::vector<TokenId>& word : params.bad_words) {
    check.require(!word.empty(), "one of bad_words", "empty", "at least one token");
    for (const TokenId id : word)
      check.token(id, "a token of bad_words");
  }
  for (const std::string& stop : params.stop)
    check.require(!stop.empty(), "one of stop", "empty", "at least one character");
  check.finish();
}

const char* what_needs_tokenizer(const SamplingParams& params) {
  if (!params.stop.empty()) return "stop strings";
  if (params.min_indent > 0 || params.max_line_ms) return "limits of lines";
  const bool has_infill =
      params.steps && std::ranges::find(*params.steps, SamplingStep::Infill) != params.steps->end();
  return has_infill ? "infill steps" : nullptr;
}

}  // namespace graft::engine
