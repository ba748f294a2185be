// Parameters of tool calls in XML-like formats: <parameter=KEY>VALUE</parameter>. Their values have
// no types; the schemas of the request's tools decide between text and JSON.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graft/base/text/json.h"

namespace graft::server {

struct ParameterSyntax {
  std::string_view open;
  std::string_view key_end;
  std::string_view value_open;  // after the key; empty: the value follows at once
  std::string_view close;
  std::string_view call_end;        // before the closing marker of the call; empty: none
  bool has_type_attribute = false;  // string="true": text, string="false": JSON
};

// Qwen3-Coder and Qwen3.5.
inline constexpr ParameterSyntax kFunctionParameters = {.open = "<parameter=",
                                                        .key_end = ">",
                                                        .value_open = "",
                                                        .close = "</parameter>",
                                                        .call_end = "</function>"};
inline constexpr ParameterSyntax kMiniMaxParameters = {.open = "<parameter name=",
                                                       .key_end = ">",
                                                       .value_open = "",
                                                       .close = "</parameter>",
                                                       .call_end = ""};
inline constexpr ParameterSyntax kGlmParameters = {.open = "<arg_key>",
                                                   .key_end = "</arg_key>",
                                                   .value_open = "<arg_value>",
                                                   .close = "</arg_value>",
                                                   .call_end = ""};
// DeepSeek-V3.2.
inline constexpr ParameterSyntax kDsmlParameters = {.open = "<｜DSML｜parameter name=",
                                                    .key_end = ">",
                                                    .value_open = "",
                                                    .close = "</｜DSML｜parameter>",
                                                    .call_end = "",
                                                    .has_type_attribute = true};

struct ParameterStep {
  enum class Kind : std::uint8_t {
    Incomplete,
    Parameter,
    End,  // the end of the call, closing marker included
    Malformed,
  };
  Kind kind = Kind::Incomplete;
  std::size_t size = 0;  // bytes read
  std::string key = {};
  std::string text = {};
  bool is_json = false;  // the syntax says so
  bool is_text = false;
};

// The next parameter of a call that ends with `call_close`. `at_end`: no text follows.
ParameterStep next_parameter(std::string_view text,
                             const ParameterSyntax& syntax,
                             std::string_view call_close,
                             bool at_end);

// The JSON text of a parameter's value; empty: it is malformed.
std::string parameter_value(const OrderedJson& tools,
                            std::string_view tool_name,
                            const ParameterStep& parameter);

// The declaration of a tool; null when the request has none of this name.
const OrderedJson* find_tool(const OrderedJson& tools, std::string_view tool_name);

}  // namespace graft::server
