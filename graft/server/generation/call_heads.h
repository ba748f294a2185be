// The head of a tool call in streamed text: everything before the arguments.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace graft::server {

struct ParameterSyntax;

struct CallHead {
  enum class Kind : std::uint8_t {
    Incomplete,  // needs more text
    Json,        // the arguments are a JSON object, which begins after the head
    Parameters,  // the parameters follow one by one
    Other,       // not a head
  };
  Kind kind = Kind::Incomplete;
  std::size_t size = 0;  // bytes
  std::string name = {};
  std::string id = {};                      // empty: the format has none
  const ParameterSyntax* syntax = nullptr;  // of Parameters
};

// All read the text after the opening marker. What is Incomplete may become any kind; other kinds
// do not change with more text.
CallHead hermes_head(std::string_view text);
CallHead deepseek_head(std::string_view text);
CallHead minimax_head(std::string_view text);
CallHead kimi_head(std::string_view text);
CallHead harmony_head(std::string_view text);
CallHead dsml_head(std::string_view text);
CallHead mistral_head(std::string_view text);
CallHead llama_head(std::string_view text);
// {"name": "f", "arguments": {, also as the first item of a list.
CallHead object_head(std::string_view text);
// Json: the text begins with a member "id" or "type" of a JSON object whose value is a text.
CallHead text_member(std::string_view text);

}  // namespace graft::server
