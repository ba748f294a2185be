// Parses rule files: a YAML list of match/replace pairs, KTransformers' language plus layer ranges,
// roles and `device`. Every value keeps its line, so that every finding has one.
//
//   - match:   { name: "regular expression", class: Linear, layers: [0-2, 7], role: experts }
//     replace: { class: default, kwargs: { device: "cuda:0" } }
//     recursive: false
//
// A file is a list of rules, or { plugins: [a.so], rules: [...] }. The first rule that matches a
// module applies; `recursive: false` excludes the module's descendants from all rules.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graft/ops/role.h"
#include "graft/plan/checks/finding.h"

namespace graft::plan {

// Bounds are inclusive.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool operator==(const LayerRange&) const = default;
};

struct Rule {
  int line = 0;         // 1-based, of the rule's first key
  bool broken = false;  // its match has an error Finding: it matches nothing

  // match: at least one is set, and all that are set must hold
  std::optional<std::string> name_regex;  // Python-style search
  std::string class_name;                 // last component of a dotted name; subclasses match too
  std::vector<LayerRange> layers;         // any of them
  std::optional<ops::Role> role;

  // replace
  std::string replace_class = "default";  // as written
  int class_line = 0;
  std::map<std::string, std::string> kwargs;  // scalars as text; booleans as "true" and "false"
  std::map<std::string, int> kwarg_lines;
  std::map<std::int64_t, std::string> transfer_map;  // kwargs.transfer_map: layer -> device
  bool recursive = true;

  // The line of a kwarg; the rule's line if it has no such kwarg.
  int line_of(const std::string& kwarg) const;
};

struct PluginPath {
  std::string path;  // as written
  int line = 0;
};

struct RuleFile {
  std::filesystem::path path;  // for messages
  std::vector<Rule> rules;
  std::vector<PluginPath> plugins;  // loaded by plugins.h
};

// Throws Error for text that is not YAML or not a list of rules. Errors inside rules (unknown keys,
// wrong types, bad regular expressions) are all added to `findings`.
RuleFile parse_rules(const std::string& text,
                     const std::filesystem::path& path,
                     std::vector<Finding>& findings);

// Reads and parses a file. Also throws Error when it cannot be read or is larger than 4 MiB.
RuleFile read_rules(const std::filesystem::path& path, std::vector<Finding>& findings);

}  // namespace graft::plan
