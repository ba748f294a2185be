#include "graft/base/progress.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "graft/base/text/units.h"

namespace graft {
namespace {

using Clock = std::chrono::steady_clock;

// Redraw interval: smooth to the eye and cheap.
constexpr std::chrono::milliseconds kRedraw{100};
constexpr int kBarCells = 24;
constexpr int kMinBarCells = 4;

int terminal_columns(std::FILE* out) {
  winsize size = {};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

Progress::Progress(std::string label, std::uint64_t total, std::FILE* out, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      out_(out),
      terminal_(::isatty(::fileno(out)) == 1),
      start_(Clock::now()),
      last_draw_(start_ - kRedraw) {}

Progress::~Progress() {
  finish();
}

void Progress::advance(std::uint64_t amount, std::string_view item) {
  done_ = total_ == 0 ? done_ + amount : std::min(done_ + amount, total_);
  if (!terminal_) {
    print_line();
  } else if (Clock::now() - last_draw_ >= kRedraw) {
    draw(item);
  }
}

void Progress::note(std::string_view line) {
  finish();
  fmt::print(out_, "{}\n", line);
}

void Progress::finish() {
  if (drawn_) fmt::print(out_, "\r\033[K");
  drawn_ = false;
  std::fflush(out_);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

std::string Progress::rate_text(double rate) const {
  if (unit_.empty()) return bytes_text(static_cast<std::uint64_t>(rate)) + "/s";
  return fmt::format("{:.3g} {}/s", rate, unit_);
}

std::string Progress::done_text() const {
  if (total_ == 0) return unit_.empty() ? bytes_text(done_) : fmt::format("{} {}", done_, unit_);
  if (unit_.empty()) return fmt::format("{} of {}", bytes_text(done_), bytes_text(total_));
  return fmt::format("{} of {} {}", done_, total_, unit_);
}

std::string Progress::bar(int cells) const {
  if (total_ == 0) return "";
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const auto filled = static_cast<int>(share * cells);
  if (cells < kMinBarCells) return fmt::format(" {:3.0f} %", share * 100);
  return fmt::format(" [{}{}] {:3.0f} %", std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(cells - filled), '.'), share * 100);
}

void Progress::draw(std::string_view item) {
  const double elapsed = seconds();
  const double rate = static_cast<double>(done_) / std::max(elapsed, 1e-3);
  std::string figures = fmt::format("  {}  {}", done_text(), rate_text(rate));
  // An estimate from less than half a second is too noisy to show.
  if (elapsed > 0.5 && done_ > 0 && total_ > 0)
    figures += fmt::format("  {} left", duration_text(static_cast<double>(total_ - done_) / rate));
  // The figures come first: the bar is as long as they leave it, and the item has the rest.
  const auto columns = static_cast<std::size_t>(terminal_columns(out_) - 1);
  const std::size_t others = label_.size() + bar(0).size() + figures.size() + sizeof(" []") - 1;
  const std::size_t left = columns > others ? columns - others : 0;
  std::string line = label_ + bar(static_cast<int>(std::min<std::size_t>(left, kBarCells)));
  line += fmt::format("{}  {}", figures, item);
  line.resize(std::min(line.size(), columns));
  fmt::print(out_, "\r\033[K{}", line);
  std::fflush(out_);
  drawn_ = true;
  last_draw_ = Clock::now();
}

void Progress::print_line() {
  if (total_ == 0) return;
  const auto tenth = static_cast<int>(done_ * 10 / total_);
  if (tenth == last_tenth_) return;
  last_tenth_ = tenth;
  fmt::print(out_, "{}: {} %, {}, {}\n", label_, tenth * 10, done_text(), duration_text(seconds()));
  std::fflush(out_);
}

}  // namespace graft
