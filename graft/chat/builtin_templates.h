// Built-in chat templates by name, for models without one, and the choice between them and the
// model's own. They format text messages only and fail on tools instead of ignoring them.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graft/chat/chat_template.h"
#include "graft/formats/chat_traits.h"
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

// `chosen` is the name of a built-in template or a file, and overrides the model's template.
// Without either, the built-in template of the family with a warning. Also warns when the model's
// template does not write the family's prefix. Throws Error for an unknown name or an invalid
// template.
SelectedTemplate select_template(const formats::TokenizerData& data,
                                 const std::string& chosen,
                                 const formats::ChatTraits& traits = {});

// Sets bos_token, eos_token, unk_token … to their text in the vocabulary. Tokens that the model
// lacks stay undefined.
void set_special_tokens(RenderInput& input, const formats::TokenizerData& data);

}  // namespace graft::chat
