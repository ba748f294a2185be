#include "tests/repository/include_check.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace graft::tests {
namespace {

using Words = std::set<std::string_view>;

bool is_word(std::string_view text) {
  return std::isalpha(static_cast<unsigned char>(text.front())) != 0 || text.front() == '_';
}

bool is_word_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

// The end of the string or character literal that begins at `at`.
std::size_t end_of_literal(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote && text[at] != '\n'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

// The end of R"x(...)x", whose R is at `at`.
std::size_t end_of_raw_string(std::string_view text, std::size_t at) {
  const std::size_t open = text.find('(', at);
  const std::string close = ")" + std::string(text.substr(at + 2, open - at - 2)) + "\"";
  const std::size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

std::size_t end_of_token(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("R\"")) return end_of_raw_string(text, at);
  if (rest.front() == '"' || rest.front() == '\'') return end_of_literal(text, at);
  if (rest.starts_with("::") || rest.starts_with("->")) return at + 2;
  if (!is_word_letter(rest.front())) return at + 1;
  const bool is_number = !is_word(rest);
  while (at < text.size() && (is_word_letter(text[at]) || (is_number && text[at] == '\'')))
    ++at;
  return at;
}

// Files without a test or a kernel of their own kind do not use these.
bool may_use(std::string_view path, std::string_view header) {
  if (header.find("/cuda/") != std::string_view::npos) return false;
  const bool is_test = path.ends_with("_test.cpp") || path.starts_with("graft/testing/") ||
                       path.starts_with("tests/");
  if (header.starts_with("tests/")) return path.starts_with("tests/");
  return is_test || !header.starts_with("graft/testing/");
}

// The name that the declaration at tokens[at] declares: the last word before its parameters, body
// or value. Moves `at` to that end.
std::string_view declared_name(const std::vector<Token>& tokens, std::size_t& at) {
  static const Words ends = {"(", "{", "=", ";", ":"};
  std::string_view name;
  int depth = 0;  // of template parameters and attributes
  for (; at < tokens.size(); ++at) {
    const std::string_view text = tokens[at].text;
    if (text == "<" || text == "[") ++depth;
    if (text == ">" || text == "]") --depth;
    if (depth > 0) continue;
    if (text == "(" && (name == "alignas" || name == "requires")) {
      while (at < tokens.size() && tokens[at].text != ")")
        ++at;
      continue;
    }
    if (ends.contains(text)) break;
    if (is_word(text) && text != "final") name = text;
  }
  return name;
}

// Names declared at the beginning of a line: the contents of namespaces are not indented.
Words declared_names(const std::vector<Token>& tokens) {
  static const Words others = {"}", "namespace", "static_assert"};
  Words names;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    if (!tokens[at].begins_line || others.contains(tokens[at].text)) continue;
    if (tokens[at].text == "#") {
      const bool is_macro =
          at + 3 < tokens.size() && tokens[at + 1].text == "define" && tokens[at + 3].text == "(";
      if (is_macro) names.insert(tokens[at + 2].text);
      continue;
    }
    const std::string_view name = declared_name(tokens, at);
    if (!name.empty()) names.insert(name);
  }
  return names;
}

std::string_view text_at(const std::vector<Token>& tokens, std::size_t at) {
  return at < tokens.size() ? tokens[at].text : ";";
}

// True for the name in `Type name(`, `auto name =`, `struct Name` and the like.
bool is_declaration(const std::vector<Token>& tokens, std::size_t at) {
  static const Words keywords = {"return", "co_return", "co_await", "co_yield", "throw",
                                 "case",   "else",      "new",      "delete",   "goto"};
  static const Words types = {"struct",    "class",    "enum",    "union", "using",
                              "namespace", "typename", "concept", "define"};
  static const Words after_type = {">", "&", "*"};
  static const Words before_call = {"(", ",", "=", "return", "&"};
  static const Words after_name = {"(", "{", ";", ",", "=", ":", ")", "["};
  if (at == 0) return false;
  const std::string_view before = tokens[at - 1].text;
  const std::string_view after = text_at(tokens, at + 1);
  if (types.contains(before)) return true;
  const bool has_type = is_word(before) ? !keywords.contains(before) : after_type.contains(before);
  // `x = *f(y)` calls f.
  const bool is_operand = (before == "&" || before == "*") && after == "(" && at > 1 &&
                          before_call.contains(tokens[at - 2].text);
  return has_type && !is_operand && after_name.contains(after);
}

// Names that the file declares anywhere, its enumerators, and the names of its tests.
Words own_names(const std::vector<Token>& tokens) {
  Words names;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const std::string_view text = tokens[at].text;
    if (!is_word(text)) continue;
    if (is_declaration(tokens, at)) names.insert(text);
    if (text.starts_with("TEST") || text == "INSTANTIATE_TEST_SUITE_P") {
      for (std::size_t i = 2; i < 5; ++i)
        names.insert(text_at(tokens, at + i));
    }
    if (text != "enum") continue;
    std::size_t i = at;
    while (text_at(tokens, i) != "{" && text_at(tokens, i) != ";")
      ++i;
    for (; text_at(tokens, i) != "}" && text_at(tokens, i) != ";"; ++i)
      names.insert(tokens[i].text);
  }
  return names;
}

// Names that may be graft's: not members, not in a namespace of another library. Of a::B::c it is
// B. True: a function of a namespace, a::c().
std::map<std::string_view, bool> used_names(const std::vector<Token>& tokens) {
  static const Words libraries = {"std",  "boost",   "fmt",  "nlohmann", "CLI", "YAML",
                                  "asio", "testing", "http", "beast",    "ssl"};
  std::map<std::string_view, bool> names;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    if (!is_word(tokens[at].text)) continue;
    const std::string_view before = at > 0 ? tokens[at - 1].text : ";";
    const std::string_view first = tokens[at].text;
    std::string_view name = first;
    while (text_at(tokens, at + 1) == "::" && is_word(text_at(tokens, at + 2))) {
      at += 2;
      if (std::islower(static_cast<unsigned char>(name.front())) != 0) name = tokens[at].text;
    }
    if (before == "." || before == "->" || before == "::" || libraries.contains(first)) continue;
    const bool is_constant =
        name.size() > 1 && name[0] == 'k' && std::isupper(static_cast<unsigned char>(name[1])) != 0;
    const bool is_lower = std::islower(static_cast<unsigned char>(name.front())) != 0;
    const bool is_call = text_at(tokens, at + 1) == "(";
    if (is_lower && !is_constant && !is_call) continue;
    names[name] |= is_lower && name != first;
  }
  return names;
}

}  // namespace

Sources read_sources() {
  static const std::set<std::string> suffixes = {".h", ".cpp", ".cuh", ".cu"};
  const std::filesystem::path root = GRAFT_SOURCE_DIR;
  Sources sources;
  for (const char* folder : {"graft", "include/graft", "tests"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!suffixes.contains(entry.path().extension().string())) continue;
      std::string path = entry.path().lexically_relative(root).string();
      if (path.starts_with("include/")) path.erase(0, std::string_view("include/").size());
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      sources[path] = text.str();
    }
  }
  return sources;
}

void add_includes(const Sources& sources, const std::string& text, std::set<std::string>& found) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#include ") || line.size() < 11) continue;
    const std::string header = line.substr(10, line.find_first_of(">\"", 10) - 10);
    if (!found.insert(header).second) continue;
    if (const auto source = sources.find(header); source != sources.end())
      add_includes(sources, source->second, found);
  }
}

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const bool begins_line = at == 0 || text[at - 1] == '\n';
    if (rest.starts_with("//") || (begins_line && rest.starts_with("#include"))) {
      at = std::min(text.find('\n', at), text.size());
    } else if (std::isspace(static_cast<unsigned char>(text[at])) != 0) {
      ++at;
    } else {
      const std::size_t end = std::min(end_of_token(text, at), text.size());
      tokens.push_back({.text = text.substr(at, end - at), .begins_line = begins_line});
      at = end;
    }
  }
  return tokens;
}

GraftIncludes::GraftIncludes(const Sources& sources) : sources_(sources) {
  for (const auto& [path, text] : sources) {
    File& file = files_[path];
    file.tokens = tokens_of(text);
    for (const Token& token : file.tokens) {
      if (is_word(token.text)) file.words.insert(token.text);
    }
    if (path.ends_with("-inl.h") || !(path.ends_with(".h") || path.ends_with(".cuh"))) continue;
    for (const std::string_view name : declared_names(file.tokens))
      headers_by_name_[name].insert(path);
  }
}

std::vector<std::string> GraftIncludes::missing(const std::string& path) const {
  std::set<std::string> included;
  add_includes(sources_, sources_.at(path), included);
  const std::vector<Token>& tokens = files_.at(path).tokens;
  const Words own = own_names(tokens);
  std::vector<std::string> missing;
  for (const auto& [used, is_qualified] : used_names(tokens)) {
    const std::string_view name = used;
    const auto headers = headers_by_name_.find(name);
    if (headers == headers_by_name_.end() || own.contains(name)) continue;
    const auto header = std::ranges::find_if(
        headers->second, [&](const std::string& declares) { return may_use(path, declares); });
    if (header == headers->second.end() || headers->second.contains(path)) continue;
    const bool must_be_declared = is_qualified;
    const bool is_included = std::ranges::any_of(included, [&](const std::string& other) {
      if (must_be_declared) return headers->second.contains(other);
      const auto file = files_.find(other);
      return file != files_.end() && file->second.words.contains(name);
    });
    if (!is_included) missing.push_back(std::string(name) + " without " + *header);
  }
  return missing;
}

}  // namespace graft::tests
