// The content of a message in OpenAI's form, from the texts and images of another API.

#pragma once

#include <string>
#include <utility>

#include "graft/base/text/json.h"

namespace graft::server {

inline OrderedJson image_part(const std::string& url) {
  return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
}

// Texts, a line each, and images in order: text alone, or a list of parts where there are images.
class MessageParts {
 public:
  void add_text(const std::string& text) {
    if (has_text_) text_ += '\n';
    text_ += text;
    has_text_ = true;
  }
  void add_image(const std::string& url) {
    flush();
    parts_.push_back(image_part(url));
  }
  bool empty() const { return !has_text_ && parts_.empty(); }

  // Leaves it empty.
  OrderedJson take() {
    if (parts_.empty()) {
      has_text_ = false;
      return std::exchange(text_, {});
    }
    flush();
    return std::exchange(parts_, OrderedJson::array());
  }

 private:
  void flush() {
    if (has_text_) parts_.push_back({{"type", "text"}, {"text", std::exchange(text_, {})}});
    has_text_ = false;
  }

  OrderedJson parts_ = OrderedJson::array();
  std::string text_;
  bool has_text_ = false;
};

}  // namespace graft::server
