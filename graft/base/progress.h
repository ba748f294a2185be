// How far a long command is: on a terminal one line that redraws itself with the remaining time,
// in a pipe a plain line every tenth of the way.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace graft {

class Progress {
 public:
  // `out` is a terminal or not by itself; `total` counts bytes, or what `unit` says.
  Progress(std::string label, std::uint64_t total, std::FILE* out, std::string unit = "");
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // `item` is what is being worked on now; terminals show it.
  void advance(std::uint64_t amount, std::string_view item);
  // A line of its own above the bar.
  void note(std::string_view line);
  // Clears the bar; called by the destructor too.
  void finish();

 private:
  void draw(std::string_view item);
  void print_step();
  double seconds() const;
  std::string rate_text(double rate) const;
  std::string so_far() const;

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
