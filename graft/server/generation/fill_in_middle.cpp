#include "graft/server/generation/fill_in_middle.h"

#include <algorithm>
#include <array>
#include <optional>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"

namespace graft::server {
namespace {

using tokenizer::Tokenizer;

struct FillTokens {
  std::string_view prefix;
  std::string_view suffix;
  std::string_view middle;       // empty: none
  bool suffix_is_first = false;  // SUFFIX text PREFIX text, else PREFIX text SUFFIX text MIDDLE
};

constexpr std::array<FillTokens, 6> kFillTokens = {
    FillTokens{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},     // Qwen, CodeGemma
    FillTokens{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},           // StarCoder, Granite
    FillTokens{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},     // DeepSeek
    FillTokens{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},  // GLM
    FillTokens{"▁<PRE>", "▁<SUF>", "▁<MID>"},                             // Code Llama
    FillTokens{"[PREFIX]", "[SUFFIX]", "", true},                         // Codestral
};

constexpr std::array<std::string_view, 2> kFileSeparators = {"<|file_sep|>", "<file_sep>"};
constexpr std::array<std::string_view, 2> kRepositoryNames = {"<|repo_name|>", "<repo_name>"};
constexpr std::array<std::string_view, 3> kPaddings = {"<|fim_pad|>", "<fim_pad>", "<EOT>"};

template <std::size_t kCount>
std::optional<api::TokenId> first_of(const Tokenizer& tokenizer,
                                     const std::array<std::string_view, kCount>& names) {
  for (const std::string_view name : names) {
    if (const auto id = tokenizer.find(name)) return id;
  }
  return std::nullopt;
}

const FillTokens& fill_tokens(const Tokenizer& tokenizer, std::string_view field) {
  const auto* found = std::ranges::find_if(kFillTokens, [&](const FillTokens& row) {
    return tokenizer.find(row.prefix) && tokenizer.find(row.suffix) &&
           (row.middle.empty() || tokenizer.find(row.middle));
  });
  if (found != kFillTokens.end()) return *found;
  throw ApiError(400, str(field, ": the model has no fill-in-the-middle tokens"),
                 std::string(field));
}

class PromptBuilder {
 public:
  explicit PromptBuilder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    const std::vector<api::TokenId> empty = tokenizer.encode("");
    if (!empty.empty() && tokenizer.bos() == empty.front()) tokens_.push_back(empty.front());
  }

  void add_token(std::string_view name) { tokens_.push_back(*tokenizer_.find(name)); }
  void add_token(api::TokenId id) { tokens_.push_back(id); }
  void add_text(std::string_view text) {
    const std::vector<api::TokenId> part =
        tokenizer_.encode(text, {.add_special = false, .parse_special = false});
    tokens_.insert(tokens_.end(), part.begin(), part.end());
  }
  std::vector<api::TokenId> take() { return std::move(tokens_); }

 private:
  const Tokenizer& tokenizer_;
  std::vector<api::TokenId> tokens_;
};

void add_files(const Tokenizer& tokenizer, const FillInMiddle& input, PromptBuilder& prompt) {
  if (input.files.empty()) return;
  const std::optional<api::TokenId> separator = first_of(tokenizer, kFileSeparators);
  if (!separator)
    throw ApiError(400, "input_extra: the model has no token that separates files", "input_extra");
  if (const auto repository = first_of(tokenizer, kRepositoryNames)) {
    prompt.add_token(*repository);
    prompt.add_text("project\n");
  }
  for (const auto& [name, text] : input.files) {
    prompt.add_token(*separator);
    prompt.add_text(str(name, "\n", text));
  }
  prompt.add_token(*separator);
  prompt.add_text("filename\n");
}

}  // namespace

std::vector<api::TokenId> fill_prompt(const Tokenizer& tokenizer, const FillInMiddle& input) {
  const FillTokens& names = fill_tokens(tokenizer, input.field);
  PromptBuilder prompt(tokenizer);
  add_files(tokenizer, input, prompt);
  if (names.suffix_is_first) {
    prompt.add_token(names.suffix);
    prompt.add_text(input.suffix);
    prompt.add_token(names.prefix);
    prompt.add_text(input.prefix);
    return prompt.take();
  }
  prompt.add_token(names.prefix);
  prompt.add_text(input.prefix);
  prompt.add_token(names.suffix);
  prompt.add_text(input.suffix);
  prompt.add_token(names.middle);
  return prompt.take();
}

std::vector<api::TokenId> fill_stop_tokens(const Tokenizer& tokenizer) {
  std::vector<api::TokenId> stops;
  for (const auto& id : {first_of(tokenizer, kFileSeparators),
                         first_of(tokenizer, kRepositoryNames), first_of(tokenizer, kPaddings)}) {
    if (id) stops.push_back(*id);
  }
  return stops;
}

}  // namespace graft::server
