#include "graft/plan/checks/collector.h"

#include <algorithm>
#include <utility>

namespace graft::plan {

void Collector::error(int line, std::string text, const ModuleSpec* module, std::string group) {
  add({Finding::Kind::Error, line, std::move(group), std::move(text), module, module,
       module == nullptr ? 0U : 1U});
}

void Collector::warning(int line, std::string text, const ModuleSpec* module, std::string group) {
  add({Finding::Kind::Warning, line, std::move(group), std::move(text), module, module,
       module == nullptr ? 0U : 1U});
}

void Collector::add(Entry entry) {
  if (entry.group.empty()) entry.group = entry.text;
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& other) {
    return other.kind == entry.kind && other.line == entry.line && other.group == entry.group;
  });
  if (same == entries_.end()) {
    entries_.push_back(std::move(entry));
  } else if (same->last != entry.last) {
    same->last = entry.last;
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
