// The rule language: a YAML list of match/replace pairs, KTransformers' as it stands plus layer
// ranges, roles and `device`. Parsing keeps lines, so that every complaint names one.
//
//   - match:   { name: "regular expression", class: Linear, layers: [0-2, 7], role: experts }
//     replace: { class: default, kwargs: { device: "cuda:0" } }
//     recursive: false
//
// A file is such a list, or { plugins: [a.so], rules: [...] }. The first rule that matches a module
// decides; `recursive: false` keeps all rules away from the modules below it.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graft/ops/role.h"
#include "graft/plan/finding.h"

namespace graft::plan {

// Both included.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool operator==(const LayerRange&) const = default;
};

struct Rule {
  int line = 0;         // 1-based, of the rule's first key
  bool broken = false;  // its match was refused with a Finding: it matches nothing

  // match: at least one; all that are given must hold
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

  // The line of a kwarg, or of the rule.
  int line_of(const std::string& kwarg) const;
};

struct PluginPath {
  std::string path;  // as written
  int line = 0;
};

struct RuleFile {
  std::filesystem::path path;  // for messages
  std::vector<Rule> rules;
  std::vector<PluginPath> plugins;  // of `plugins:`; plugins.h loads them
};

// Throws Error for text that is no YAML or no list of rules; what is wrong inside rules (unknown
// keys, bad types, bad regular expressions) goes to `findings`, all of it.
RuleFile parse_rules(const std::string& text,
                     const std::filesystem::path& path,
                     std::vector<Finding>& findings);

// The rules in a file. Throws Error, also when the file cannot be read or is over 4 MiB.
RuleFile read_rules(const std::filesystem::path& path, std::vector<Finding>& findings);

}  // namespace graft::plan
