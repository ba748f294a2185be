// The rule language: a YAML list of match/replace pairs, KTransformers' as it stands plus layer
// ranges, roles and `device`. Parsing keeps lines, so that every complaint names one.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graft/ops/role.h"
#include "graft/plan/finding.h"

namespace graft::plan {

struct Rule {
  int line = 0;  // 1-based, of the rule's first key

  // match: at least one; all that are given must hold
  std::string name_regex;                                       // Python-style search
  std::string class_name;                                       // last component of a dotted name
  std::optional<std::pair<std::int64_t, std::int64_t>> layers;  // first and last, both included
  std::optional<ops::Role> role;

  // replace
  std::string replace_class = "default";      // as written
  std::map<std::string, std::string> kwargs;  // scalars as text
  std::map<std::string, int> kwarg_lines;
  std::map<std::int64_t, std::string> transfer_map;  // kwargs.transfer_map
  bool recursive = true;
};

struct RuleFile {
  std::filesystem::path path;  // for messages
  std::vector<Rule> rules;
  std::vector<std::string> plugins;  // paths from `plugins:`
};

// Throws Error for text that is no YAML or no list of rules; what is wrong inside rules (unknown
// keys, bad types, bad regular expressions) goes to `findings`, all of it.
RuleFile parse_rules(const std::string& text,
                     const std::filesystem::path& path,
                     std::vector<Finding>& findings);

}  // namespace graft::plan
