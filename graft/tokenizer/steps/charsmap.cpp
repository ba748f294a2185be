#include "graft/tokenizer/steps/charsmap.h"

#include <cstring>

#include <utf8proc.h>

#include "graft/base/error.h"
#include "graft/tokenizer/steps/unicode.h"

namespace graft::tokenizer {
namespace {

constexpr std::string_view kName = "precompiled_charsmap";

// Longer graphemes are looked up character by character.
constexpr std::size_t kMaxGraphemeBytes = 5;

// A unit of the double array (Darts-clone): the byte it is reached by, the offset of its children,
// and whether an entry ends here. A unit with the highest bit set holds the value of an entry.
std::uint32_t label_of(std::uint32_t unit) {
  return unit & 0x800000FFU;
}
std::uint32_t offset_of(std::uint32_t unit) {
  return (unit >> 10U) << ((unit & 0x200U) >> 6U);
}
bool ends_entry(std::uint32_t unit) {
  return (unit & 0x100U) != 0;
}
bool is_value(std::uint32_t unit) {
  return (unit & 0x80000000U) != 0;
}
std::uint32_t value_of(std::uint32_t unit) {
  return unit & 0x7FFFFFFFU;
}

// Size of the first grapheme of `text`. An invalid byte is a grapheme.
std::size_t grapheme_bytes(std::string_view text) {
  Character c = first_character(text);
  std::size_t end = c.bytes;
  utf8proc_int32_t state = 0;
  while (c.code >= 0 && end < text.size()) {
    const Character next = first_character(text.substr(end));
    if (next.code < 0 || utf8proc_grapheme_break_stateful(c.code, next.code, &state)) break;
    end += next.bytes;
    c = next;
  }
  return end;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  std::uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof(trie_bytes))
    fail(kName, ": ", bytes.size(), " bytes, expected at least 4");
  std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
  bytes.remove_prefix(sizeof(trie_bytes));
  if (trie_bytes == 0 || trie_bytes % sizeof(std::uint32_t) != 0 || trie_bytes > bytes.size()) {
    fail(kName, ": the trie has ", trie_bytes, " bytes, ", bytes.size(), " are left");
  }
  units_.resize(trie_bytes / sizeof(std::uint32_t));
  std::memcpy(units_.data(), bytes.data(), trie_bytes);
  replacements_ = bytes.substr(trie_bytes);
  check_entries();
  for (std::uint32_t byte = 1; byte < begins_.size(); ++byte) {
    const std::uint32_t at = offset_of(units_[0]) ^ byte;
    begins_[byte] = at < units_.size() && label_of(units_[at]) == byte;
  }
}

// Checks all units, reachable or not, so that find() needs no bounds checks for values.
void Charsmap::check_entries() const {
  for (std::uint32_t at = 0; at < units_.size(); ++at) {
    if (is_value(units_[at]) || !ends_entry(units_[at])) continue;
    const std::uint32_t end = at ^ offset_of(units_[at]);
    if (end >= units_.size())
      fail(kName, ": unit ", end, " is out of range, the trie has ", units_.size());
    const std::uint32_t value = value_of(units_[end]);
    if (value >= replacements_.size() || replacements_.back() != '\0') {
      fail(kName, ": the replacement at ", value, " of ", replacements_.size(),
           " bytes is not terminated");
    }
  }
}

std::optional<Charsmap::Match> Charsmap::find(std::string_view text, bool stops_at_first) const {
  std::size_t bytes = 0;
  std::uint32_t value = 0;
  std::uint32_t at = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    at ^= byte;
    // Byte 0 leads to values, and unused units are 0 too.
    if (byte == 0 || at >= units_.size() || label_of(units_[at]) != byte) break;
    const std::uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!ends_entry(unit)) continue;
    bytes = i + 1;
    value = value_of(units_[at]);
    if (stops_at_first) break;
  }
  if (bytes == 0) return std::nullopt;
  return Match{bytes, replacements_.data() + value};
}

bool replace_longest(std::string_view text, const Charsmap& map, std::string& out) {
  bool is_changed = false;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto match = map.begins(text[at]) ? map.longest(text.substr(at)) : std::nullopt;
    if (!match) {
      at += first_character(text.substr(at)).bytes;
      continue;
    }
    if (!is_changed) out.clear();
    is_changed = true;
    out += text.substr(done, at - done);
    out += match->replacement;
    at += match->bytes;
    done = at;
  }
  if (is_changed) out += text.substr(done);
  return is_changed;
}

bool replace_graphemes(std::string_view text, const Charsmap& map, std::string& out) {
  bool is_changed = false;
  const auto replace = [&](std::string_view part) {
    const auto match = map.begins(part[0]) ? map.shortest(part) : std::nullopt;
    if (match) out += match->replacement;
    is_changed = is_changed || match;
    return match.has_value();
  };
  out.clear();
  while (!text.empty()) {
    std::string_view grapheme = text.substr(0, grapheme_bytes(text));
    text.remove_prefix(grapheme.size());
    if (grapheme.size() <= kMaxGraphemeBytes && replace(grapheme)) continue;
    while (!grapheme.empty()) {
      const std::string_view character = grapheme.substr(0, first_character(grapheme).bytes);
      grapheme.remove_prefix(character.size());
      if (!replace(character)) out += character;
    }
  }
  return is_changed;
}

}  // namespace graft::tokenizer
