#include "graft/plan/checks/finding.h"

#include <algorithm>
#include <tuple>

namespace graft::plan {

bool has_errors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.kind == Finding::Kind::Error; });
}

void sort_findings(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.line, a.kind) < std::tie(b.line, b.kind);
  });
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const bool error = finding.kind == Finding::Kind::Error;
    text += finding.where + (error ? ": error: " : ": warning: ") + finding.text + "\n";
  }
  return text;
}

}  // namespace graft::plan
