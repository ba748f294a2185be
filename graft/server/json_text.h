// Compact JSON for the wire. Bytes that are not UTF-8 (a model can produce them) become U+FFFD.

#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "graft/base/text/json.h"

namespace graft::server {

inline std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The same, keeping the order of the keys.
inline std::string ordered_text(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

// Text of a JSON object from the texts of its values; for values that are too large as JSON trees.
class JsonObjectText {
 public:
  JsonObjectText() = default;
  // Starts with the members of `object`.
  explicit JsonObjectText(const OrderedJson& object) : text_(ordered_text(object)) {
    text_.pop_back();
  }

  void add(std::string_view name, std::string_view value_text) {
    if (text_.size() > 1) text_ += ',';
    text_ += '"';
    text_ += name;
    text_ += "\":";
    text_ += value_text;
  }
  std::string take() {
    text_ += '}';
    return std::move(text_);
  }

 private:
  std::string text_ = "{";
};

// Appends an item to the text of a list without its brackets.
inline void append_item(std::string& list, std::string_view item_text) {
  if (!list.empty()) list += ',';
  list += item_text;
}

}  // namespace graft::server
