// Character classes of regular expressions, for translating intersections (&&) to PCRE2.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft::tokenizer {

struct CharacterClass {
  bool is_negated = false;
  std::string items;  // the text between the brackets in PCRE2
  // The general categories it consists of; null if it has other items.
  std::optional<std::vector<std::string_view>> categories = std::vector<std::string_view>{};

  // A character, a range, a property, or several of them.
  void add(std::string_view item);
  std::string text() const;
};

// Items for all characters outside the class; null if that cannot be expressed.
std::optional<std::string> outside_of(const CharacterClass& of);

// A pattern for a character that is in all of the classes, or (negated) not in all.
std::string intersection(const std::vector<CharacterClass>& parts, bool is_negated);

}  // namespace graft::tokenizer
