#include "graft/tokenizer/steps/normalizer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include <utf8proc.h>

#include "graft/base/check.h"
#include "graft/tokenizer/steps/unicode.h"

namespace graft::tokenizer {
namespace {

using NormalizerKind = NormalizerStep::Kind;

// From this code point on, no character decomposes, composes or has a combining class.
constexpr std::int32_t kMaxCode = 0x30000;

utf8proc_option_t options_of(NormalizerKind kind) {
  const auto decompose = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  const auto compose = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  switch (kind) {
    case NormalizerKind::Nfd:
      return static_cast<utf8proc_option_t>(decompose);
    case NormalizerKind::Nfkc:
      return static_cast<utf8proc_option_t>(compose | UTF8PROC_COMPAT);
    case NormalizerKind::Nfkd:
      return static_cast<utf8proc_option_t>(decompose | UTF8PROC_COMPAT);
    default:
      return static_cast<utf8proc_option_t>(compose);
  }
}

void append_form(std::string_view text, NormalizerKind kind, std::string& out) {
  utf8proc_uint8_t* result = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result, options_of(kind));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, std::free);
  GRAFT_CHECK(length >= 0, utf8proc_errmsg(length));
  out.append(reinterpret_cast<const char*>(result), static_cast<std::size_t>(length));
}

// The characters that a normalization form never changes, whatever their neighbours: the text can
// be split before each of them. Most text consists of these and is not copied.
class InertCharacters {
 public:
  explicit InertCharacters(NormalizerKind kind) : bits_(kMaxCode, false) {
    std::vector<bool> continues(kMaxCode, false);
    std::array<utf8proc_int32_t, 32> parts{};
    int boundclass = 0;
    const auto options = static_cast<utf8proc_option_t>(options_of(kind) & ~UTF8PROC_COMPOSE);
    const auto decompose = static_cast<utf8proc_option_t>(options | UTF8PROC_DECOMPOSE);
    const bool composes = kind == NormalizerKind::Nfc || kind == NormalizerKind::Nfkc;
    for (std::int32_t code = 0x80; code < kMaxCode; ++code) {
      const utf8proc_property_t* property = utf8proc_get_property(code);
      const auto count =
          utf8proc_decompose_char(code, parts.data(), parts.size(), decompose, &boundclass);
      const bool decomposes = count != 1 || parts[0] != code;
      bits_[static_cast<std::size_t>(code)] = property->combining_class == 0 && !decomposes;
      // Most characters that decompose compose back to themselves. All parts but the first can
      // compose with a character before them.
      if (!composes || !decomposes || count < 2) continue;
      for (std::size_t i = 1; i < static_cast<std::size_t>(count); ++i)
        continues[static_cast<std::size_t>(parts[i])] = true;
      std::string self;
      append_utf8(code, self);
      std::string form;
      append_form(self, kind, form);
      bits_[static_cast<std::size_t>(code)] = property->combining_class == 0 && form == self;
    }
    for (std::size_t code = 0; code < bits_.size(); ++code)
      bits_[code] = code < 0x80 || (bits_[code] && !continues[code]);
  }

  bool operator[](std::int32_t code) const {
    return code < 0 || code >= kMaxCode || bits_[static_cast<std::size_t>(code)];
  }

 private:
  std::vector<bool> bits_;
};

const InertCharacters& inert_characters(NormalizerKind kind) {
  static const InertCharacters nfc(NormalizerKind::Nfc);
  if (kind == NormalizerKind::Nfc) return nfc;
  static const InertCharacters nfd(NormalizerKind::Nfd);
  static const InertCharacters nfkc(NormalizerKind::Nfkc);
  static const InertCharacters nfkd(NormalizerKind::Nfkd);
  return kind == NormalizerKind::Nfd ? nfd : kind == NormalizerKind::Nfkc ? nfkc : nfkd;
}

// A range to normalize: from the last inert character before a changing one to the next inert one.
struct Segment {
  std::size_t begin;
  std::size_t end;
};

// Null if the rest of the text is inert.
std::optional<Segment> next_segment(std::string_view text,
                                    std::size_t from,
                                    const InertCharacters& inert) {
  std::size_t begin = from;  // of the previous character
  for (std::size_t at = from; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      begin = at++;
      continue;
    }
    const Character c = first_character(text.substr(at));
    if (inert[c.code]) {
      begin = c.code < 0 ? at + 1 : at;
      at += c.bytes;
      continue;
    }
    std::size_t end = at + c.bytes;
    while (end < text.size()) {
      const Character next = first_character(text.substr(end));
      if (inert[next.code]) break;
      end += next.bytes;
    }
    return Segment{begin, end};
  }
  return std::nullopt;
}

// Returns whether the text may have changed; only then `out` is valid. So do the functions below.
bool to_form(std::string_view text, NormalizerKind kind, std::string& out) {
  const InertCharacters& inert = inert_characters(kind);
  auto segment = next_segment(text, 0, inert);
  if (!segment) return false;
  out.clear();
  std::size_t done = 0;
  for (; segment; segment = next_segment(text, done, inert)) {
    out += text.substr(done, segment->begin - done);
    append_form(text.substr(segment->begin, segment->end - segment->begin), kind, out);
    done = segment->end;
  }
  out += text.substr(done);
  return true;
}

bool replace_text(std::string_view text,
                  std::string_view pattern,
                  std::string_view content,
                  std::string& out) {
  std::size_t found = pattern.empty() ? std::string_view::npos : text.find(pattern);
  if (found == std::string_view::npos) return false;
  out.clear();
  std::size_t done = 0;
  for (; found != std::string_view::npos; found = text.find(pattern, done)) {
    out += text.substr(done, found - done);
    out += content;
    done = found + pattern.size();
  }
  out += text.substr(done);
  return true;
}

// `text` must be valid UTF-8.
void append_replaced(std::string_view text,
                     const Regex& regex,
                     std::string_view content,
                     RegexScratch& scratch,
                     std::string& out) {
  std::size_t done = 0;
  std::size_t from = 0;
  while (from <= text.size()) {
    const auto match = regex.find(text, from, scratch);
    if (!match) break;
    out += text.substr(done, match->begin - done);
    out += content;
    done = match->end;
    from = match->end;
    if (match->begin != match->end) continue;
    if (from == text.size()) break;
    from += first_character(text.substr(from)).bytes;
  }
  out += text.substr(done);
}

bool replace_regex(std::string_view text,
                   const Regex& regex,
                   std::string_view content,
                   RegexScratch& scratch,
                   std::string& out) {
  out.clear();
  while (!text.empty()) {
    const std::size_t valid = valid_prefix(text);
    if (valid > 0) append_replaced(text.substr(0, valid), regex, content, scratch, out);
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += text.front();
    text.remove_prefix(1);
  }
  return true;
}

// As Rust's to_lowercase of single characters: only İ becomes two.
bool lower(std::string_view text, std::string& out) {
  constexpr std::int32_t kDottedI = 0x130;
  out.clear();
  while (!text.empty()) {
    const Character c = first_character(text);
    if (c.code < 0) {
      out += text.front();
    } else if (c.code == kDottedI) {
      out += "i\u0307";
    } else {
      append_utf8(to_lower(c.code), out);
    }
    text.remove_prefix(c.bytes);
  }
  return true;
}

std::string_view stripped(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const Character c = first_character(text);
    if (!is_whitespace(c.code)) break;
    text.remove_prefix(c.bytes);
  }
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) >> 6U) == 2)
      --begin;
    const Character c = first_character(text.substr(begin));
    if (c.bytes != text.size() - begin || !is_whitespace(c.code)) break;
    text.remove_suffix(c.bytes);
  }
  return text;
}

bool merge_spaces(std::string_view text, std::string& out) {
  if (!text.ends_with(' ') && text.find("  ") == std::string_view::npos) return false;
  out.clear();
  for (const char c : text) {
    if (c != ' ' || !out.ends_with(' ')) out += c;
  }
  if (out.ends_with(' ')) out.pop_back();
  return true;
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  for (const NormalizerStep& step : steps) {
    steps_.push_back({step, {}, {}});
    if (step.is_regex) steps_.back().regex.emplace(step.pattern);
    if (step.kind == NormalizerKind::Charsmap) steps_.back().charsmap.emplace(step.pattern);
    if (step.kind <= NormalizerKind::Nfkd) inert_characters(step.kind);
  }
}

std::string_view Normalizer::run(std::string_view text,
                                 Scratch& scratch,
                                 RegexScratch& regex) const {
  for (const Step& step : steps_) {
    const NormalizerStep& spec = step.spec;
    bool is_changed = false;
    switch (spec.kind) {
      case NormalizerKind::Nfc:
      case NormalizerKind::Nfd:
      case NormalizerKind::Nfkc:
      case NormalizerKind::Nfkd:
        is_changed = to_form(text, spec.kind, scratch.next);
        break;
      case NormalizerKind::Replace:
        is_changed = step.regex
                         ? replace_regex(text, *step.regex, spec.content, regex, scratch.next)
                         : replace_text(text, spec.pattern, spec.content, scratch.next);
        break;
      case NormalizerKind::Prepend:
        if (text.empty()) break;
        scratch.next.assign(spec.content);
        scratch.next += text;
        is_changed = true;
        break;
      case NormalizerKind::Lowercase:
        is_changed = lower(text, scratch.next);
        break;
      case NormalizerKind::Strip:
        text = stripped(text, spec.left, spec.right);
        break;
      case NormalizerKind::Charsmap:
        is_changed = spec.by_graphemes ? replace_graphemes(text, *step.charsmap, scratch.next)
                                       : replace_longest(text, *step.charsmap, scratch.next);
        break;
      case NormalizerKind::MergeSpaces:
        is_changed = merge_spaces(text, scratch.next);
        break;
    }
    if (!is_changed) continue;
    std::swap(scratch.text, scratch.next);
    text = scratch.text;
  }
  return text;
}

}  // namespace graft::tokenizer
