// Progress of a long command: on a terminal one line that is redrawn, with the remaining time; in a
// pipe a plain line every 10 %.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace graft {

class Progress {
 public:
  // Detects whether `out` is a terminal. `total` is in bytes unless `unit` names another unit; 0:
  // unknown, then there is no bar and nothing in a pipe.
  Progress(std::string label, std::uint64_t total, std::FILE* out, std::string unit = "");
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // `item` names the current item; shown on terminals only.
  void advance(std::uint64_t amount, std::string_view item);
  // Prints a separate line above the bar.
  void note(std::string_view line);
  // Clears the bar; the destructor calls it too.
  void finish();

 private:
  void draw(std::string_view item);
  void print_line();
  double seconds() const;
  std::string rate_text(double rate) const;
  std::string done_text() const;
  std::string bar(int cells) const;  // with the percentage; no cells: only that

  std::string label_;
  std::string unit_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::FILE* out_;
  bool terminal_;
  bool drawn_ = false;
  int last_tenth_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_draw_;
};

}  // namespace graft
