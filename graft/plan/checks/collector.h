// Collects findings while a plan is made and merges equal and similar ones: the same error in sixty
// layers is one finding that names the first module and counts the others.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/plan/blueprint.h"
#include "graft/plan/checks/finding.h"

namespace graft::plan {

class Collector {
 public:
  explicit Collector(std::filesystem::path path) : path_(std::move(path)) {}

  // `line` is 0 for a finding without a rule. `module` is where it occurred; null for a finding
  // about the rule itself. Findings of one `group` on a line are merged and keep the first text;
  // without a group, those of equal texts are.
  void error(int line,
             std::string text,
             const ModuleSpec* module = nullptr,
             std::string group = {});
  void warning(int line,
               std::string text,
               const ModuleSpec* module = nullptr,
               std::string group = {});

  // The findings, sorted; the collector is empty afterwards.
  std::vector<Finding> take();

 private:
  struct Entry {
    Finding::Kind kind;
    int line;
    std::string group;
    std::string text;
    const ModuleSpec* first;
    const ModuleSpec* last;  // a module whose two phases fail alike is counted once
    std::size_t num_modules;
  };
  void add(Entry entry);

  std::filesystem::path path_;
  std::vector<Entry> entries_;
};

// "a, b, c", or "none".
std::string join(const std::vector<std::string>& words);

}  // namespace graft::plan
