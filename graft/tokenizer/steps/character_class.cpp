#include "graft/tokenizer/steps/character_class.h"

#include <algorithm>
#include <array>

#include "graft/base/text/str.h"

namespace graft::tokenizer {
namespace {

// The general categories: every character is in exactly one.
constexpr std::array<std::string_view, 30> kCategories = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

}  // namespace

void CharacterClass::add(std::string_view item) {
  items += item;
  const bool is_property =
      item.starts_with("\\p{") && item.find('}') == item.size() - 1 && categories.has_value();
  const std::string_view name = is_property ? item.substr(3, item.size() - 4) : "";
  bool is_category = false;
  for (const std::string_view category : kCategories) {
    if (!is_property || !category.starts_with(name)) continue;
    is_category = true;
    categories->push_back(category);
  }
  if (!is_category) categories.reset();
}

std::string CharacterClass::text() const {
  return str('[', is_negated ? "^" : "", items, ']');
}

std::optional<std::string> outside_of(const CharacterClass& of) {
  if (of.is_negated) return of.items;
  if (!of.categories) return std::nullopt;
  std::string items;
  for (const std::string_view category : kCategories) {
    if (std::ranges::find(*of.categories, category) == of.categories->end()) {
      items += str("\\p{", category, '}');
    }
  }
  return items;
}

// A single class if possible (a && b is not (not a or not b)), otherwise lookaheads, which are
// slower.
std::string intersection(const std::vector<CharacterClass>& parts, bool is_negated) {
  std::string outside;
  bool is_one_class = true;
  for (const CharacterClass& part : parts) {
    const auto items = outside_of(part);
    is_one_class = is_one_class && items.has_value();
    if (items) outside += *items;
  }
  if (is_one_class) return str(is_negated ? "[" : "[^", outside, ']');
  std::string ahead;
  for (const CharacterClass& part : parts)
    ahead += str("(?=", part.text(), ')');
  return is_negated ? str("(?:(?!", ahead, ")(?s:.))") : str("(?:", ahead, "(?s:.))");
}

}  // namespace graft::tokenizer
