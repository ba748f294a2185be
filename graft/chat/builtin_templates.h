// Templates by name, for models that bring none: formats that whole families share. They write text
// turns only; tools are refused rather than ignored.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graft/chat/chat_template.h"
#include "graft/formats/tokenizer_data.h"

namespace graft::chat {

struct BuiltinTemplate {
  std::string_view name;
  std::string_view source;
};

std::span<const BuiltinTemplate> builtin_templates();

struct SelectedTemplate {
  ChatTemplate chat_template;
  std::string warning;  // empty: none
};

// `chosen`, the name of a built-in template or a file, wins over the model's own template. Without
// both: ChatML, and a warning. There is one too where the model's own lost the prefix of GLM.
SelectedTemplate select_template(const formats::TokenizerData& data, const std::string& chosen);

// bos_token, eos_token, unk_token … as the vocabulary spells them; those it has not stay undefined.
void set_special_tokens(RenderInput& input, const formats::TokenizerData& data);

}  // namespace graft::chat
