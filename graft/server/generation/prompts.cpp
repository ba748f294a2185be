#include "graft/server/generation/prompts.h"

#include <string>
#include <string_view>

#include "graft/server/generation/tool_calls.h"

namespace graft::server {

std::vector<api::TokenId> encode_prompt(const LoadedModel& model, const api::Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return model.tokenizer().encode(*text);
  return std::get<std::vector<api::TokenId>>(prompt);
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
