#include "graft/plan/rules/rules.h"

#include <array>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "graft/base/error.h"
#include "graft/base/text/regex.h"

namespace graft::plan {
namespace {

// KTransformers' largest file has 30 kB and 60 rules. The limits bound the time a hostile file can
// cost. Values are counted where rules use them, because a YAML alias repeats a value at no cost.
constexpr std::size_t kMaxFileBytes = 4U << 20U;
constexpr std::size_t kMaxRules = 2000;
constexpr std::size_t kMaxValues = 200'000;

// False for a quoted scalar, which is always text.
bool is_plain(const YAML::Node& node) {
  return node.Tag() != "!";
}

std::optional<bool> to_bool(const YAML::Node& node) {
  // YAML 1.1 booleans as Python's loader reads them, which excludes "y" and "n".
  static constexpr std::array<std::string_view, 9> kTrue = {"true", "True", "TRUE", "yes", "Yes",
                                                            "YES",  "on",   "On",   "ON"};
  static constexpr std::array<std::string_view, 9> kFalse = {"false", "False", "FALSE", "no", "No",
                                                             "NO",    "off",   "Off",   "OFF"};
  if (!node.IsScalar() || !is_plain(node)) return std::nullopt;
  for (const std::string_view word : kTrue) {
    if (node.Scalar() == word) return true;
  }
  for (const std::string_view word : kFalse) {
    if (node.Scalar() == word) return false;
  }
  return std::nullopt;
}

std::optional<std::int64_t> to_int(std::string_view text) {
  std::int64_t value = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

std::optional<LayerRange> to_layers(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = to_int(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : to_int(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return LayerRange{.first = *first, .last = *last};
}

std::string role_list() {
  std::string list;
  for (const std::string_view role : ops::kRoleNames) {
    if (!list.empty()) list += ", ";
    list += role;
  }
  return list;
}

// Records the line where each YAML document begins.
class DocumentStarts : public YAML::EventHandler {
 public:
  const std::vector<int>& lines() const { return lines_; }

  void OnDocumentStart(const YAML::Mark& mark) override { lines_.push_back(mark.line + 1); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&,
                const std::string&,
                YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&,
                       const std::string&,
                       YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&,
                  const std::string&,
                  YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  std::vector<int> lines_;
};

// YAML::Load silently ignores what follows the first document, and YAML::LoadAll does not terminate
// on a stray ",". So check for a second document before loading.
YAML::Node load_only_document(const std::string& text, const std::string& path) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  DocumentStarts starts;
  if (parser.HandleNextDocument(starts)) parser.HandleNextDocument(starts);
  if (starts.lines().size() > 1) {
    fail(path, ":", starts.lines()[1], ": unexpected content after the list of rules");
  }
  return YAML::Load(text);
}

class Parser {
 public:
  Parser(RuleFile& file, std::vector<Finding>& findings) : file_(file), findings_(findings) {}

  void parse(const YAML::Node& root) {
    if (root.IsMap()) {
      check_keys(root, "the file", {"plugins", "rules"});
      if (const YAML::Node plugins = root["plugins"]) parse_plugins(plugins);
      const YAML::Node rules = root["rules"];
      if (!rules) fail(where(root), ": expected a list of rules or a key \"rules\"");
      if (!rules.IsSequence()) fail(where(rules), ": rules must be a list of rules");
      parse_rules(rules);
    } else if (root.IsSequence()) {
      parse_rules(root);
    } else {
      fail(where(root), ": a rule file is a list of rules");
    }
  }

 private:
  // yaml-cpp places an empty value where the next token begins. Report its key's line instead,
  // which check_keys() recorded.
  int line(const YAML::Node& node) const {
    const auto empty = empty_values_.find({node.Mark().line, node.Mark().column});
    if (node.IsNull() && empty != empty_values_.end()) return empty->second;
    return node.Mark().line + 1;
  }
  std::string where(const YAML::Node& node) const { return where(line(node)); }
  std::string where(int at) const { return str(file_.path.string(), ":", at); }

  template <class... Parts>
  void report_error(const YAML::Node& node, const Parts&... parts) {
    findings_.push_back({.where = where(node), .line = line(node), .text = str(parts...)});
  }

  // Call for every value that is read; see kMaxValues.
  void count(const YAML::Node& node) {
    if (++num_values_ > kMaxValues) fail(where(node), ": more than ", kMaxValues, " values");
  }

  // Reports unknown and duplicate keys. An empty `known` accepts any key.
  void check_keys(const YAML::Node& map,
                  std::string_view of,
                  const std::initializer_list<std::string_view>& known) {
    std::set<std::string> seen;
    for (const auto& entry : map) {
      count(entry.first);
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "(not a scalar)";
      const YAML::Mark mark = entry.second.Mark();
      if (entry.second.IsNull()) {
        empty_values_[{mark.line, mark.column}] = entry.first.Mark().line + 1;
      }
      if (!seen.insert(key).second) report_error(entry.first, "duplicate key \"", key, "\"");
      if (known.size() == 0) continue;
      bool found = false;
      std::string list;
      for (const std::string_view word : known) {
        found = found || key == word;
        list += (list.empty() ? "" : ", ") + std::string(word);
      }
      if (!found)
        report_error(entry.first, "unknown key \"", key, "\" in ", of, " (known: ", list, ")");
    }
  }

  // The text of a scalar; null and a finding for anything else.
  std::optional<std::string> text(const YAML::Node& node, std::string_view what) {
    if (node.IsScalar()) return node.Scalar();
    const char* got = node.IsNull() ? "empty" : (node.IsMap() ? "a map" : "a list");
    report_error(node, what, " must be text, not ", got);
    return std::nullopt;
  }

  void parse_plugins(const YAML::Node& plugins) {
    if (!plugins.IsSequence()) return report_error(plugins, "plugins must be a list of paths");
    for (const YAML::Node& plugin : plugins) {
      count(plugin);
      if (auto path = text(plugin, "a plugin"))
        file_.plugins.push_back({.path = *std::move(path), .line = line(plugin)});
    }
  }

  void parse_rules(const YAML::Node& rules) {
    if (rules.size() > kMaxRules) {
      fail(where(rules), ": ", rules.size(), " rules, the maximum is ", kMaxRules);
    }
    for (const YAML::Node& node : rules) {
      count(node);
      if (!node.IsMap()) {
        report_error(node, "a rule is a map with match and replace");
        continue;
      }
      Rule rule;
      rule.line = line(node);
      parse_rule(node, rule);
      file_.rules.push_back(std::move(rule));
    }
  }

  void parse_rule(const YAML::Node& node, Rule& rule) {
    check_keys(node, "a rule", {"match", "replace", "recursive"});
    rule.class_line = rule.line;
    const std::size_t before = findings_.size();
    if (const YAML::Node match = node["match"]) {
      parse_match(match, rule);
    } else {
      report_error(node, "the rule has no match");
    }
    rule.broken = findings_.size() > before;
    if (const YAML::Node replace = node["replace"]) {
      parse_replace(replace, rule);
    } else {
      report_error(node, "the rule has no replace");
    }
    if (const YAML::Node recursive = node["recursive"]) {
      const auto value = to_bool(recursive);
      if (!value) report_error(recursive, "recursive must be true or false, without quotes");
      rule.recursive = value.value_or(true);
    }
  }

  void parse_match(const YAML::Node& match, Rule& rule) {
    if (!match.IsMap()) return report_error(match, "match must be a map");
    check_keys(match, "match", {"name", "class", "layers", "role"});
    if (match.size() == 0) report_error(match, "match is empty: set name, class, layers or role");
    if (const YAML::Node name = match["name"]) parse_name(name, rule);
    if (const YAML::Node class_name = match["class"]) {
      const std::string dotted = text(class_name, "match.class").value_or("");
      rule.class_name = dotted.substr(dotted.rfind('.') + 1);
      if (class_name.IsScalar() && rule.class_name.empty()) {
        report_error(class_name, "match.class has no class name: \"", dotted, "\"");
      }
    }
    if (const YAML::Node layers = match["layers"]) parse_layers(layers, rule);
    if (const YAML::Node role = match["role"]) {
      const auto word = text(role, "match.role");
      if (word) rule.role = ops::role_from_name(*word);
      if (word && !rule.role) {
        report_error(role, "unknown role \"", *word, "\" (known: ", role_list(), ")");
      }
    }
  }

  void parse_name(const YAML::Node& name, Rule& rule) {
    rule.name_regex = text(name, "match.name");
    if (!rule.name_regex) return;
    try {
      const Regex check(*rule.name_regex);
    } catch (const Error& error) {
      report_error(name, "match.name is not a regular expression: ", error.what());
    }
  }

  void parse_layers(const YAML::Node& layers, Rule& rule) {
    if (!layers.IsSequence()) return parse_layer_range(layers, rule);
    if (layers.size() == 0) report_error(layers, "match.layers is an empty list");
    for (const YAML::Node& range : layers) {
      count(range);
      parse_layer_range(range, rule);
    }
  }

  void parse_layer_range(const YAML::Node& node, Rule& rule) {
    const auto range = node.IsScalar() ? to_layers(node.Scalar()) : std::nullopt;
    if (range) {
      rule.layers.push_back(*range);
    } else {
      report_error(node, "match.layers: ",
                   node.IsScalar() ? "\"" + node.Scalar() + "\"" : std::string("this"),
                   " is not a layer (3), a range (0-29) or a list of these");
    }
  }

  void parse_replace(const YAML::Node& replace, Rule& rule) {
    if (!replace.IsMap()) return report_error(replace, "replace must be a map");
    check_keys(replace, "replace", {"class", "kwargs"});
    if (const YAML::Node class_name = replace["class"]) {
      rule.class_line = line(class_name);
      rule.replace_class = text(class_name, "replace.class").value_or("default");
    }
    if (const YAML::Node kwargs = replace["kwargs"]) parse_kwargs(kwargs, rule);
  }

  void parse_kwargs(const YAML::Node& kwargs, Rule& rule) {
    if (!kwargs.IsMap()) return report_error(kwargs, "kwargs must be a map");
    check_keys(kwargs, "kwargs", {});
    for (const auto& entry : kwargs) {
      if (!entry.first.IsScalar()) {
        report_error(entry.first, "the name of a kwarg must be text");
        continue;
      }
      const std::string& key = entry.first.Scalar();
      rule.kwarg_lines.emplace(key, line(entry.first));
      if (key == "transfer_map") {
        parse_transfer_map(entry.second, rule);
      } else if (auto value = kwarg(entry.second, key)) {
        rule.kwargs.emplace(key, *std::move(value));
      }
    }
  }

  std::optional<std::string> kwarg(const YAML::Node& node, const std::string& key) {
    if (const auto flag = to_bool(node)) return *flag ? "true" : "false";
    // YAML has no spelling for Python's None: files write the word or leave the value empty.
    if (node.IsNull() && (key == "generate_op" || key == "prefill_op")) return "None";
    return text(node, key);
  }

  void parse_transfer_map(const YAML::Node& map, Rule& rule) {
    if (!map.IsMap()) return report_error(map, "transfer_map must be a map of layer: device");
    check_keys(map, "transfer_map", {});
    for (const auto& entry : map) {
      const YAML::Node& key = entry.first;
      const auto layer = key.IsScalar() ? to_int(key.Scalar()) : std::nullopt;
      if (!layer) {
        report_error(key, "transfer_map: the key must be a layer number");
      } else if (auto device = text(entry.second, "transfer_map: the device")) {
        rule.transfer_map.emplace(*layer, *std::move(device));
      }
    }
  }

  RuleFile& file_;
  std::vector<Finding>& findings_;
  std::map<std::pair<int, int>, int> empty_values_;
  std::size_t num_values_ = 0;
};

}  // namespace

int Rule::line_of(const std::string& kwarg) const {
  const auto found = kwarg_lines.find(kwarg);
  return found == kwarg_lines.end() ? line : found->second;
}

RuleFile parse_rules(const std::string& text,
                     const std::filesystem::path& path,
                     std::vector<Finding>& findings) {
  if (text.size() > kMaxFileBytes) {
    fail(path.string(), ": the rule file has more than ", kMaxFileBytes, " bytes");
  }
  RuleFile file{.path = path, .rules = {}, .plugins = {}};
  std::vector<Finding> found;
  try {
    const YAML::Node root = load_only_document(text, path.string());
    if (root.IsNull()) fail(path.string(), ":1: the file has no rules");
    Parser(file, found).parse(root);
  } catch (const YAML::Exception& error) {
    fail(path.string(), ":", error.mark.line + 1, ": not valid YAML: ", error.msg);
  }
  sort_findings(found);
  findings.insert(findings.end(), found.begin(), found.end());
  return file;
}

RuleFile read_rules(const std::filesystem::path& path, std::vector<Finding>& findings) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path)) fail(path.string(), ": cannot be read");
  // Read one byte more than allowed, so that parse_rules rejects a larger file.
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse_rules(text, path, findings);
}

}  // namespace graft::plan
