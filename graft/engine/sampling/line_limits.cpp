#include "graft/engine/sampling/line_limits.h"

#include <cstddef>

namespace graft::engine {

bool LineLimits::cut(std::string& text, std::int64_t ms) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (num_blanks_) {
      if (text[i] == ' ' || text[i] == '\t') {
        ++*num_blanks_;
        continue;
      }
      if (*num_blanks_ < min_indent_) {
        text.resize(i);
        return true;
      }
      num_blanks_.reset();
    }
    if (text[i] != '\n') continue;
    if (max_ms_ && ms > *max_ms_) {
      text.resize(i + 1);
      return true;
    }
    num_blanks_ = 0;
  }
  return false;
}

}  // namespace graft::engine
