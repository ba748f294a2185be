#include "graft/plan/collector.h"

#include <algorithm>
#include <utility>

namespace graft::plan {

void Collector::error(int line, std::string text, const ModuleSpec* module) {
  add(Finding::Kind::Error, line, std::move(text), module);
}

void Collector::warning(int line, std::string text, const ModuleSpec* module) {
  add(Finding::Kind::Warning, line, std::move(text), module);
}

void Collector::add(Finding::Kind kind, int line, std::string text, const ModuleSpec* module) {
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.kind == kind && entry.line == line && entry.text == text;
  });
  if (same == entries_.end()) {
    entries_.push_back({kind, line, std::move(text), module, module, module == nullptr ? 0U : 1U});
  } else if (same->last != module) {
    same->last = module;
    ++same->num_modules;
  }
}

std::vector<Finding> Collector::take() {
  std::vector<Finding> findings;
  for (const Entry& entry : entries_) {
    std::string text = entry.text;
    if (entry.num_modules > 0) {
      text += str(" (at ", entry.first->name.empty() ? "the root" : entry.first->name);
      if (entry.num_modules > 1) text += str(" and ", entry.num_modules - 1, " more");
      text += ")";
    }
    findings.push_back({
        .kind = entry.kind,
        .where = entry.line == 0 ? path_.string() : str(path_.string(), ":", entry.line),
        .line = entry.line,
        .text = std::move(text),
    });
  }
  entries_.clear();
  sort_findings(findings);
  return findings;
}

std::string join(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words)
    list += (list.empty() ? "" : ", ") + word;
  return list.empty() ? "none" : list;
}

}  // namespace graft::plan
