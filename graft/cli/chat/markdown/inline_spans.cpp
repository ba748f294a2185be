#include "graft/cli/chat/markdown/inline_spans.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace graft::cli {
namespace {

constexpr std::size_t kMaxSpanBytes = 2000;  // a marker without an end within them is text
constexpr int kMaxDepth = 8;                 // of spans within spans
constexpr std::uint8_t kCodeColour = 33;
constexpr std::string_view kMarkers = "\\`*_~[!";

struct Match {
  enum class Kind : std::uint8_t { Wait, Text, Emphasis, Strike, Code, Link };

  Kind kind = Kind::Wait;
  std::string_view content = {};
  std::string_view url = {};
  std::size_t marker = 0;  // of emphasis: 1 italic, 2 bold, 3 both
  std::size_t end = 0;     // where the text behind the match begins
};

bool is_ascii_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_ascii_punctuation(char c) {
  return c > ' ' && c < 0x7f && !is_ascii_alnum(c);
}

bool is_word_byte(char c) {
  return is_ascii_alnum(c) || static_cast<unsigned char>(c) >= 0x80;
}

// Looks for spans in the part of a line that may decide them.
class SpanMatcher {
 public:
  SpanMatcher(std::string_view line, std::size_t at, bool is_complete)
      : line_(line.substr(0, at + kMaxSpanBytes)),
        at_(at),
        is_complete_(is_complete || line_.size() == at + kMaxSpanBytes) {}

  Match match() const {
    switch (line_[at_]) {
      case '\\':
        return escape();
      case '`':
        return code();
      case '*':
      case '_':
      case '~':
        return emphasis();
      case '[':
        return link(at_);
      default:  // '!'
        if (at_ + 1 == line_.size()) return undecided(1);
        return line_[at_ + 1] == '[' ? link(at_ + 1) : text(1);
    }
  }

 private:
  Match text(std::size_t bytes) const {
    return {.kind = Match::Kind::Text, .content = line_.substr(at_, bytes), .end = at_ + bytes};
  }
  Match undecided(std::size_t bytes) const { return is_complete_ ? text(bytes) : Match{}; }

  std::size_t run_end(std::size_t begin) const {
    return std::min(line_.find_first_not_of(line_[begin], begin), line_.size());
  }
  // More of the run may follow.
  bool is_open(std::size_t end) const { return end == line_.size() && !is_complete_; }

  Match escape() const {
    if (at_ + 1 == line_.size()) return undecided(1);
    if (!is_ascii_punctuation(line_[at_ + 1])) return text(1);
    return {.kind = Match::Kind::Text, .content = line_.substr(at_ + 1, 1), .end = at_ + 2};
  }

  // The end of the run of backticks that closes the one at `begin`; npos: none so far.
  std::size_t code_end(std::size_t begin) const {
    const std::size_t size = run_end(begin) - begin;
    for (std::size_t i = line_.find('`', begin + size); i != std::string_view::npos;
         i = line_.find('`', i)) {
      const std::size_t end = run_end(i);
      if (is_open(end)) return std::string_view::npos;
      if (end - i == size) return end;
      i = end;
    }
    return std::string_view::npos;
  }

  Match code() const {
    const std::size_t size = run_end(at_) - at_;
    if (is_open(at_ + size)) return {};
    const std::size_t end = code_end(at_);
    if (end == std::string_view::npos) return undecided(size);
    std::string_view content = line_.substr(at_ + size, end - at_ - 2 * size);
    if (content.size() > 2 && content.starts_with(' ') && content.ends_with(' '))
      content = content.substr(1, content.size() - 2);
    return {.kind = Match::Kind::Code, .content = content, .end = end};
  }

  bool can_open(std::size_t size) const {
    const char marker = line_[at_];
    if (size > 3 || (marker == '~' && size != 2)) return false;
    if (at_ + size == line_.size() || line_[at_ + size] == ' ') return false;
    if (at_ == 0) return true;
    // 5*3 and snake_case are not emphasis.
    if (marker == '_') return !is_word_byte(line_[at_ - 1]);
    return size > 1 || !is_ascii_alnum(line_[at_ - 1]);
  }

  bool can_close(std::size_t begin, std::size_t end, std::size_t size) const {
    const std::size_t found = end - begin;
    if (size == 1 ? found % 2 == 0 : found < size) return false;
    if (line_[begin - 1] == ' ' && found == size) return false;
    return line_[begin] != '_' || end == line_.size() || !is_word_byte(line_[end]);
  }

  Match emphasis() const {
    const char marker = line_[at_];
    const std::size_t size = run_end(at_) - at_;
    if (is_open(at_ + size)) return {};
    if (!can_open(size)) return text(size);
    std::size_t i = at_ + size;
    while (i < line_.size()) {
      if (line_[i] == '\\') {
        i += 2;
      } else if (line_[i] == '`') {
        const std::size_t end = code_end(i);
        if (end == std::string_view::npos && !is_complete_) return {};
        i = end == std::string_view::npos ? run_end(i) : end;
      } else if (line_[i] == marker) {
        const std::size_t end = run_end(i);
        if (is_open(end)) return {};
        if (can_close(i, end, size)) {
          const auto kind = marker == '~' ? Match::Kind::Strike : Match::Kind::Emphasis;
          const std::string_view content = line_.substr(at_ + size, end - at_ - 2 * size);
          return {.kind = kind, .content = content, .marker = size, .end = end};
        }
        i = end;
      } else {
        ++i;
      }
    }
    return undecided(size);
  }

  // The closing bracket of the one at `begin`; npos: none so far.
  std::size_t closing(std::size_t begin, char open, char close) const {
    int depth = 0;
    for (std::size_t i = begin; i < line_.size(); ++i) {
      if (line_[i] == '\\') {
        ++i;
      } else if (line_[i] == open) {
        ++depth;
      } else if (line_[i] == close && --depth == 0) {
        return i;
      }
    }
    return std::string_view::npos;
  }

  Match link(std::size_t begin) const {
    const std::size_t bracket = closing(begin, '[', ']');
    if (bracket == std::string_view::npos) return undecided(begin + 1 - at_);
    if (is_open(bracket + 1)) return {};
    if (bracket + 1 == line_.size() || line_[bracket + 1] != '(') return text(begin + 1 - at_);
    const std::size_t end = closing(bracket + 1, '(', ')');
    if (end == std::string_view::npos) return undecided(begin + 1 - at_);
    std::string_view url = line_.substr(bracket + 2, end - bracket - 2);
    url = url.substr(0, url.find(' '));  // a title follows
    return {.kind = Match::Kind::Link,
            .content = line_.substr(begin + 1, bracket - begin - 1),
            .url = url,
            .end = end + 1};
  }

  std::string_view line_;
  std::size_t at_;
  bool is_complete_;
};

void render_nested(std::string_view text, TextStyle style, int depth, const StyledSink& sink);

void emit(const Match& match, TextStyle style, int depth, const StyledSink& sink) {
  switch (match.kind) {
    case Match::Kind::Wait:
      break;
    case Match::Kind::Text:
      sink(match.content, style);
      break;
    case Match::Kind::Code:
      style.colour = kCodeColour;
      sink(match.content, style);
      break;
    case Match::Kind::Strike:
      style.strike = true;
      render_nested(match.content, style, depth + 1, sink);
      break;
    case Match::Kind::Emphasis:
      if (match.marker != 2) style.italic = true;
      if (match.marker != 1) style.bold = true;
      render_nested(match.content, style, depth + 1, sink);
      break;
    case Match::Kind::Link: {
      TextStyle underlined = style;
      underlined.underline = true;
      render_nested(match.content, underlined, depth + 1, sink);
      style.dim = true;
      if (match.url != match.content) sink(" (" + std::string(match.url) + ")", style);
      break;
    }
  }
}

std::size_t render_spans(std::string_view line,
                         std::size_t at,
                         bool is_complete,
                         const TextStyle& style,
                         int depth,
                         const StyledSink& sink) {
  while (at < line.size()) {
    const std::size_t marker = std::min(line.find_first_of(kMarkers, at), line.size());
    if (marker > at) sink(line.substr(at, marker - at), style);
    at = marker;
    if (at == line.size()) break;
    const Match match = SpanMatcher(line, at, is_complete).match();
    if (match.kind == Match::Kind::Wait) break;
    emit(match, style, depth, sink);
    at = match.end;
  }
  return at;
}

void render_nested(std::string_view text, TextStyle style, int depth, const StyledSink& sink) {
  if (depth >= kMaxDepth) {
    sink(text, style);
  } else {
    render_spans(text, 0, true, style, depth, sink);
  }
}

}  // namespace

std::size_t render_inline(std::string_view line,
                          std::size_t at,
                          bool is_complete,
                          const TextStyle& style,
                          const StyledSink& sink) {
  return render_spans(line, at, is_complete, style, 0, sink);
}

}  // namespace graft::cli
