#include "graft/jinja/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <utf8proc.h>

namespace graft::jinja {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

template <std::size_t kSize>
bool contains(const std::array<Range, kSize>& ranges, char32_t c) {
  return std::ranges::any_of(ranges, [c](Range r) { return c >= r.first && c <= r.last; });
}

// Unicode properties that the general category does not imply.
// clang-format off
constexpr std::array kSpaces = {Range{0x9, 0xd}, Range{0x1c, 0x20}, Range{0x85, 0x85}, Range{0xa0, 0xa0},
    Range{0x1680, 0x1680}, Range{0x2000, 0x200a}, Range{0x2028, 0x2029}, Range{0x202f, 0x202f},
    Range{0x205f, 0x205f}, Range{0x3000, 0x3000}};
constexpr std::array kLineBreaks = {Range{0xa, 0xd}, Range{0x1c, 0x1e}, Range{0x85, 0x85}, Range{0x2028, 0x2029}};
// Digits of category No: superscripts, circled digits.
constexpr std::array kOtherDigits = {Range{0xb2, 0xb3}, Range{0xb9, 0xb9}, Range{0x1369, 0x1371},
    Range{0x19da, 0x19da}, Range{0x2070, 0x2070}, Range{0x2074, 0x2079}, Range{0x2080, 0x2089},
    Range{0x2460, 0x2468}, Range{0x2474, 0x247c}, Range{0x2488, 0x2490}, Range{0x24ea, 0x24ea},
    Range{0x24f5, 0x24fd}, Range{0x24ff, 0x24ff}, Range{0x2776, 0x277e}, Range{0x2780, 0x2788},
    Range{0x278a, 0x2792}, Range{0x10a40, 0x10a43}, Range{0x10e60, 0x10e68}, Range{0x11052, 0x1105a},
    Range{0x1f100, 0x1f10a}};
constexpr std::array kOtherLower = {Range{0xaa, 0xaa}, Range{0xba, 0xba}, Range{0x2b0, 0x2b8},
    Range{0x2c0, 0x2c1}, Range{0x2e0, 0x2e4}, Range{0x345, 0x345}, Range{0x37a, 0x37a},
    Range{0x1d2c, 0x1d6a}, Range{0x1d78, 0x1d78}, Range{0x1d9b, 0x1dbf}, Range{0x2071, 0x2071},
    Range{0x207f, 0x207f}, Range{0x2090, 0x209c}, Range{0x2170, 0x217f}, Range{0x24d0, 0x24e9},
    Range{0x2c7c, 0x2c7d}, Range{0xa69c, 0xa69d}, Range{0xa770, 0xa770}, Range{0xa7f8, 0xa7f9},
    Range{0xab5c, 0xab5f}, Range{0x10780, 0x10780}, Range{0x10783, 0x10785}, Range{0x10787, 0x107b0},
    Range{0x107b2, 0x107ba}};
constexpr std::array kOtherUpper = {Range{0x2160, 0x216f}, Range{0x24b6, 0x24cf}, Range{0x1f130, 0x1f149},
    Range{0x1f150, 0x1f169}, Range{0x1f170, 0x1f189}};

// Letters whose upper case is several code points, sorted. Greek letters with iota subscript in
// 1F80..1FAF are computed instead.
struct Expansion {
  char32_t letter;
  std::u32string_view upper;
  std::u32string_view title;
};
constexpr std::array kExpansions = {
    Expansion{0xdf, U"SS", U"Ss"}, Expansion{0x149, U"\u02bcN", U"\u02bcN"},
    Expansion{0x1f0, U"J\u030c", U"J\u030c"}, Expansion{0x390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    Expansion{0x3b0, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"}, Expansion{0x587, U"\u0535\u0552", U"\u0535\u0582"},
    Expansion{0x1e96, U"H\u0331", U"H\u0331"}, Expansion{0x1e97, U"T\u0308", U"T\u0308"},
    Expansion{0x1e98, U"W\u030a", U"W\u030a"}, Expansion{0x1e99, U"Y\u030a", U"Y\u030a"},
    Expansion{0x1e9a, U"A\u02be", U"A\u02be"}, Expansion{0x1f50, U"\u03a5\u0313", U"\u03a5\u0313"},
    Expansion{0x1f52, U"\u03a5\u0313\u0300", U"\u03a5\u0313\u0300"}, Expansion{0x1f54, U"\u03a5\u0313\u0301", U"\u03a5\u0313\u0301"},
    Expansion{0x1f56, U"\u03a5\u0313\u0342", U"\u03a5\u0313\u0342"}, Expansion{0x1fb2, U"\u1fba\u0399", U"\u1fba\u0345"},
    Expansion{0x1fb3, U"\u0391\u0399", U"\u1fbc"}, Expansion{0x1fb4, U"\u0386\u0399", U"\u0386\u0345"},
    Expansion{0x1fb6, U"\u0391\u0342", U"\u0391\u0342"}, Expansion{0x1fb7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"},
    Expansion{0x1fbc, U"\u0391\u0399", U"\u1fbc"}, Expansion{0x1fc2, U"\u1fca\u0399", U"\u1fca\u0345"},
    Expansion{0x1fc3, U"\u0397\u0399", U"\u1fcc"}, Expansion{0x1fc4, U"\u0389\u0399", U"\u0389\u0345"},
    Expansion{0x1fc6, U"\u0397\u0342", U"\u0397\u0342"}, Expansion{0x1fc7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"},
    Expansion{0x1fcc, U"\u0397\u0399", U"\u1fcc"}, Expansion{0x1fd2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
    Expansion{0x1fd3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"}, Expansion{0x1fd6, U"\u0399\u0342", U"\u0399\u0342"},
    Expansion{0x1fd7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"}, Expansion{0x1fe2, U"\u03a5\u0308\u0300", U"\u03a5\u0308\u0300"},
    Expansion{0x1fe3, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"}, Expansion{0x1fe4, U"\u03a1\u0313", U"\u03a1\u0313"},
    Expansion{0x1fe6, U"\u03a5\u0342", U"\u03a5\u0342"}, Expansion{0x1fe7, U"\u03a5\u0308\u0342", U"\u03a5\u0308\u0342"},
    Expansion{0x1ff2, U"\u1ffa\u0399", U"\u1ffa\u0345"}, Expansion{0x1ff3, U"\u03a9\u0399", U"\u1ffc"},
    Expansion{0x1ff4, U"\u038f\u0399", U"\u038f\u0345"}, Expansion{0x1ff6, U"\u03a9\u0342", U"\u03a9\u0342"},
    Expansion{0x1ff7, U"\u03a9\u0342\u0399", U"\u03a9\u0342\u0345"}, Expansion{0x1ffc, U"\u03a9\u0399", U"\u1ffc"},
    Expansion{0xfb00, U"FF", U"Ff"}, Expansion{0xfb01, U"FI", U"Fi"}, Expansion{0xfb02, U"FL", U"Fl"},
    Expansion{0xfb03, U"FFI", U"Ffi"}, Expansion{0xfb04, U"FFL", U"Ffl"}, Expansion{0xfb05, U"ST", U"St"},
    Expansion{0xfb06, U"ST", U"St"}, Expansion{0xfb13, U"\u0544\u0546", U"\u0544\u0576"},
    Expansion{0xfb14, U"\u0544\u0535", U"\u0544\u0565"}, Expansion{0xfb15, U"\u0544\u053b", U"\u0544\u056b"},
    Expansion{0xfb16, U"\u054e\u0546", U"\u054e\u0576"}, Expansion{0xfb17, U"\u0544\u053d", U"\u0544\u056d"},
};
// clang-format on

const Expansion* expansion(char32_t c) {
  if (c < 0xdf) return nullptr;
  const auto* found = std::ranges::lower_bound(kExpansions, c, {}, &Expansion::letter);
  return found != kExpansions.end() && found->letter == c ? found : nullptr;
}

utf8proc_category_t category(char32_t c) {
  return c > 0x10ffff ? UTF8PROC_CATEGORY_CN : utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

char32_t simple(utf8proc_int32_t (*map)(utf8proc_int32_t), char32_t c) {
  return c > 0x10ffff ? c : static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c)));
}

void append_upper(std::string& out, char32_t c) {
  if (c >= 0x1f80 && c <= 0x1faf) {  // vowels with iota subscript: 3 x (8 lower, 8 title case)
    const char32_t base = c < 0x1f90 ? 0x1f08 : (c < 0x1fa0 ? 0x1f28 : 0x1f68);
    append_utf8(out, base + (c & 7U));
    return append_utf8(out, 0x399);
  }
  const Expansion* found = expansion(c);
  if (found == nullptr) return append_utf8(out, simple(utf8proc_toupper, c));
  for (const char32_t part : found->upper)
    append_utf8(out, part);
}

void append_title(std::string& out, char32_t c) {
  const Expansion* found = expansion(c);
  if (found == nullptr) return append_utf8(out, simple(utf8proc_totitle, c));
  for (const char32_t part : found->title)
    append_utf8(out, part);
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}

// Unicode's Case_Ignorable: marks and punctuation that the final sigma rule skips.
bool is_case_ignorable(char32_t c) {
  static constexpr std::u32string_view kSigns = U"'.:^`\u00a8\u00ad\u00af\u00b4\u00b7\u00b8\u2019";
  if (kSigns.find(c) != std::u32string_view::npos) return true;
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
         kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
         kind == UTF8PROC_CATEGORY_SK;
}

// Unicode's Final_Sigma: after a cased letter and not before one.
bool is_final_sigma(std::string_view text, std::size_t at) {
  bool cased_before = false;
  for (std::size_t i = at; i > 0;) {
    --i;
    while (i > 0 && (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U)
      --i;
    const char32_t c = decode_utf8(text, i).value;
    if (is_case_ignorable(c)) continue;
    cased_before = is_cased(c);
    break;
  }
  if (!cased_before) return false;
  for (std::size_t i = at + 2; i < text.size();) {
    const CodePoint c = decode_utf8(text, i);
    if (!is_case_ignorable(c.value)) return !is_cased(c.value);
    i += c.size;
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, std::size_t at, char32_t c) {
  if (c == 0x130) {
    out += "i\u0307";
  } else if (c == 0x3a3) {
    append_utf8(out, is_final_sigma(text, at) ? 0x3c2 : 0x3c3);
  } else {
    append_utf8(out, simple(utf8proc_tolower, c));
  }
}

// Calls `visit(out, offset, code point)` for each code point; invalid UTF-8 bytes are copied.
template <class Visit>
std::string transform(std::string_view text, Visit visit) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (c.size == 1 && c.value >= 0x80) {
      out += text[at];
    } else {
      visit(out, at, c.value);
    }
    at += c.size;
  }
  return out;
}

template <class Drop>
std::string_view strip(std::string_view text, Side side, Drop drop) {
  if (side != Side::Right) {
    while (!text.empty()) {
      const CodePoint c = decode_utf8(text, 0);
      if (!drop(c.value)) break;
      text.remove_prefix(c.size);
    }
  }
  if (side == Side::Left) return text;
  while (!text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && text.size() - at < 4 &&
           (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U)
      --at;
    if (decode_utf8(text, at).size != text.size() - at) at = text.size() - 1;
    if (!drop(decode_utf8(text, at).value)) break;
    text = text.substr(0, at);
  }
  return text;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1};
  utf8proc_int32_t c = 0;
  const std::size_t left = std::min<std::size_t>(4, text.size() - at);
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                     static_cast<utf8proc_ssize_t>(left), &c);
  // As Python's surrogateescape: a lone surrogate, which valid text cannot contain.
  if (size <= 0) return {0xDC00U + first, 1};
  return {static_cast<char32_t>(c), static_cast<std::size_t>(size)};
}

void append_utf8(std::string& text, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (c.size == 1 && c.value >= 0x80) return false;
    at += c.size;
  }
  return true;
}

std::size_t num_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  while (at < text.size()) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U && index-- == 0) return at;
    ++at;
  }
  return at;
}

bool is_space(char32_t c) {
  return c < 0x80 ? (c >= 0x9 && c <= 0xd) || (c >= 0x1c && c <= 0x20) : contains(kSpaces, c);
}

bool is_line_break(char32_t c) {
  return contains(kLineBreaks, c);
}

bool is_alpha(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
  return is_decimal(c) || contains(kOtherDigits, c);
}

bool is_numeric(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || contains(kOtherUpper, c);
}

bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || contains(kOtherLower, c);
}

bool is_title(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const utf8proc_category_t kind = category(c);
  return kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS;
}

std::string upper(std::string_view text) {
  return transform(text, [](std::string& out, std::size_t, char32_t c) { append_upper(out, c); });
}

std::string lower(std::string_view text) {
  return transform(text, [text](std::string& out, std::size_t at, char32_t c) {
    append_lower(out, text, at, c);
  });
}

std::string title(std::string_view text) {
  bool in_word = false;
  return transform(text, [&](std::string& out, std::size_t at, char32_t c) {
    if (in_word) {
      append_lower(out, text, at, c);
    } else {
      append_title(out, c);
    }
    in_word = is_cased(c);
  });
}

std::string capitalize(std::string_view text) {
  return transform(text, [&](std::string& out, std::size_t at, char32_t c) {
    if (at == 0) {
      append_title(out, c);
    } else {
      append_lower(out, text, at, c);
    }
  });
}

std::string swap_case(std::string_view text) {
  return transform(text, [&](std::string& out, std::size_t at, char32_t c) {
    if (is_upper(c)) {
      append_lower(out, text, at, c);
    } else if (is_lower(c)) {
      append_upper(out, c);
    } else {
      append_utf8(out, c);
    }
  });
}

std::string_view strip_space(std::string_view text, Side side) {
  return strip(text, side, is_space);
}

std::string_view strip_any(std::string_view text, std::string_view chars, Side side) {
  return strip(text, side, [chars](char32_t c) {
    for (std::size_t at = 0; at < chars.size();) {
      const CodePoint next = decode_utf8(chars, at);
      if (next.value == c) return true;
      at += next.size;
    }
    return false;
  });
}

}  // namespace graft::jinja
