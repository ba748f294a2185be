// How a model family writes tool calls, as data: a grammar of forced calls is generated from it.
//
//   begin list_begin CALL (separator CALL)* end
//   CALL with JSON arguments:  before_name NAME before_arguments {…} after_arguments
//   CALL with parameters:      before_name NAME before_arguments PARAMETER* after_arguments
//   PARAMETER:                 before_key KEY before_text TEXT after_value, or
//                              before_key KEY before_json JSON after_value
// Python's keyword arguments are parameters without texts, with a comma between them. Some models
// write a blank before list_begin.
//
// With `before_index`, the number of the call stands between NAME and before_arguments:
// NAME before_index 0. Names need no escapes: they are words.

#pragma once

#include <string_view>

#include "graft/formats/chat_traits.h"

namespace graft::chat {

struct CallTemplate {
  std::string_view begin = {};
  std::string_view list_begin = {};
  std::string_view before_name = {};
  std::string_view before_index = {};  // empty: calls are not numbered
  std::string_view before_arguments = {};
  std::string_view after_arguments = {};
  std::string_view separator = {};
  std::string_view end = {};
  bool has_json_arguments = true;
  bool is_python = false;
  // Of parameters: a text stands as it is, without the text of after_value in it.
  std::string_view before_key = {};
  std::string_view before_text = {};
  std::string_view before_json = {};
  std::string_view after_value = {};
};

// The form that models of this format write, where the format has several that of the template.
// Any: a JSON object as the whole response.
CallTemplate call_template(formats::ToolCallFormat format, std::string_view template_source = {});

}  // namespace graft::chat
