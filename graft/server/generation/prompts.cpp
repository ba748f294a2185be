#include "graft/server/generation/prompts.h"

#include <string>
#include <string_view>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/generation/tool_calls.h"

namespace graft::server {

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
  if (!truncate) check_fits(model, *text);
  return model.tokenizer().encode(*text);
}

api::ChatPrompt chat_prompt(LoadedModel& model, const api::Conversation& conversation) {
  api::ChatPrompt prompt = model.format().render_prompt(conversation);
  check_fits(model, prompt.text);
  prompt.tokens = model.format().encode(prompt);
  return prompt;
}

void show_tool_call_markers(const tokenizer::Tokenizer& tokenizer,
                            formats::ToolCallFormat format,
                            api::SamplingParams& params) {
  for (const std::string_view mark : tool_marks(format)) {
    const auto id = tokenizer.find(mark);
    if (id && tokenizer.is_special(*id)) params.skip_special_tokens = false;
  }
}

}  // namespace graft::server
