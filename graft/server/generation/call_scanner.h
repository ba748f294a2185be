// Finds the end of a JSON object in streamed text by its brackets and strings.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace graft::server {

class ArgumentsScanner {
 public:
  // Reads on; returns the number of bytes that belong to the object.
  std::size_t scan(std::string_view text);

  bool is_done() const { return is_done_; }
  // A bracket closes another one than the last that was opened.
  bool is_broken() const { return is_broken_; }

 private:
  std::string closers_;  // of the open brackets
  bool in_string_ = false;
  bool is_escaped_ = false;
  bool is_done_ = false;
  bool is_broken_ = false;
};

}  // namespace graft::server
