// Character classes of regular expressions as sets, as far as intersecting them needs it.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft::tokenizer {

struct CharacterClass {
  bool is_negated = false;
  std::string items;  // as they stand between the brackets of PCRE2
  // The general categories that are all of it; nothing when it has other items.
  std::optional<std::vector<std::string_view>> categories = std::vector<std::string_view>{};

  // A character, a range, a property, or several of them.
  void add(std::string_view item);
  std::string text() const;
};

// Items that are all characters outside the class; nothing when that cannot be said.
std::optional<std::string> outside_of(const CharacterClass& of);

// A pattern for a character that is in all of the classes, or (negated) not in all of them.
std::string intersection(const std::vector<CharacterClass>& parts, bool is_negated);

}  // namespace graft::tokenizer
