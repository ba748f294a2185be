#include "graft/server/generation/prompts.h"

#include <string>
#include <string_view>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/generation/call_formats.h"

namespace graft::server {
namespace {

// Up to `max_bytes` of a text, without the start of a character at the end.
std::string_view prefix_of(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  const auto is_continuation = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
  };
  std::size_t end = max_bytes;
  while (end > 0 && max_bytes - end < 3 && is_continuation(end))
    --end;
  return text.substr(0, end);
}

// All tokens of a text, or those of a prefix with more than `num_tokens`. The tokens at the cut may
// differ from those of the whole text; `kMargin` keeps them out of the first `num_tokens`.
std::vector<api::TokenId> encode_first(const tokenizer::Tokenizer& tokenizer,
                                       std::string_view text,
                                       std::size_t num_tokens) {
  constexpr std::size_t kMargin = 64;
  constexpr std::size_t kBytesPerToken = 8;  // first guess
  for (std::size_t bytes = (num_tokens + kMargin) * kBytesPerToken;; bytes *= 2) {
    const std::string_view prefix = prefix_of(text, bytes);
    std::vector<api::TokenId> tokens = tokenizer.encode(prefix);
    if (prefix.size() == text.size() || tokens.size() >= num_tokens + kMargin) return tokens;
  }
}

}  // namespace

void check_fits(LoadedModel& model, std::string_view text) {
  const std::int64_t max_model_len = model.llm().config().max_model_len;
  const std::int64_t min_tokens = model.tokenizer().min_tokens(text);
  if (min_tokens < max_model_len) return;
  throw ApiError(
      400,
      str("the prompt has ", text.size(), " bytes, which are at least ", min_tokens,
          " tokens; the max context length is ", max_model_len, " tokens including the output"),
      {}, "context_length_exceeded");
}

std::vector<api::TokenId> encode_prompt(LoadedModel& model,
                                        const api::Prompt& prompt,
                                        bool truncate) {
  const auto* text = std::get_if<std::string>(&prompt);
  if (text == nullptr) return std::get<std::vector<api::TokenId>>(prompt);
  if (truncate) {
    const auto max_tokens = static_cast<std::size_t>(model.llm().config().max_model_len);
    return encode_first(model.tokenizer(), *text, max_tokens);
  }
  check_fits(model, *text);
  return model.tokenizer().encode(*text);
}

api::ChatPrompt chat_prompt(LoadedModel& model, const api::Conversation& conversation) {
  api::ChatPrompt prompt = model.format().render_prompt(conversation);
  check_fits(model, prompt.text);
  model.format().encode(prompt);
  return prompt;
}

OutputFormat output_format(const api::ChatPrompt& prompt,
                           const OrderedJson& tools,
                           bool parse_tool_calls,
                           bool single_call) {
  return {.in_thinking = prompt.in_thinking,
          .parse_tool_calls = parse_tool_calls,
          .single_call = single_call,
          .reasoning = prompt.reasoning,
          .tool_calls = prompt.tool_calls,
          .tools = tools};
}

void show_markers(const tokenizer::Tokenizer& tokenizer,
                  const api::ChatPrompt& prompt,
                  bool parse_tool_calls,
                  api::SamplingParams& params) {
  if (prompt.reasoning.is_harmony) params.skip_special_tokens = false;
  if (!parse_tool_calls) return;
  for (const std::string_view mark : tool_marks(prompt.tool_calls)) {
    const auto id = tokenizer.find(mark);
    if (id && tokenizer.is_special(*id)) params.skip_special_tokens = false;
  }
}

}  // namespace graft::server
