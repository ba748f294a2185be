#include "graft/server/generation/call_scanner.h"

namespace graft::server {

std::size_t ArgumentsScanner::scan(std::string_view text) {
  for (std::size_t i = 0; i < text.size() && !is_done_ && !is_broken_; ++i) {
    const char c = text[i];
    if (in_string_) {
      if (!is_escaped_ && c == '"') in_string_ = false;
      is_escaped_ = !is_escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      closers_ += c == '{' ? '}' : ']';
    } else if (c == '}' || c == ']') {
      if (closers_.empty() || closers_.back() != c) {
        is_broken_ = true;
        return i;
      }
      closers_.pop_back();
      is_done_ = closers_.empty();
    }
    if (is_done_) return i + 1;
  }
  return text.size();
}

}  // namespace graft::server
