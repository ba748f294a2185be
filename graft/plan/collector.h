// Gathers findings while a plan is made. What is wrong at sixty layers for one reason is one
// finding that names the first module and counts the others.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/plan/blueprint.h"
#include "graft/plan/finding.h"

namespace graft::plan {

class Collector {
 public:
  explicit Collector(std::filesystem::path path) : path_(std::move(path)) {}

  // line 0: about no rule. `module` is the one it was seen at, null: about the rule itself.
  void error(int line, std::string text, const ModuleSpec* module = nullptr);
  void warning(int line, std::string text, const ModuleSpec* module = nullptr);

  std::vector<Finding> take();  // sorted

 private:
  struct Entry {
    Finding::Kind kind;
    int line;
    std::string text;
    const ModuleSpec* first;
    const ModuleSpec* last;  // both phases of a module may fail alike: it counts once
    std::size_t num_modules;
  };
  void add(Finding::Kind kind, int line, std::string text, const ModuleSpec* module);

  std::filesystem::path path_;
  std::vector<Entry> entries_;
};

// "a, b, c", or "none".
std::string join(const std::vector<std::string>& words);

}  // namespace graft::plan
