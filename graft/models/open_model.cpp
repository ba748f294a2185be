#include "graft/models/open_model.h"

#include "graft/base/error.h"
#include "graft/models/family.h"
#include "graft/plan/plugins.h"

namespace graft::models {
namespace {

void fail_on_errors(const std::vector<plan::Finding>& findings) {
  if (!plan::has_errors(findings)) return;
  std::string text = plan::findings_text(findings);
  text.pop_back();  // whoever prints an Error ends its line
  fail(text);
}

plan::RuleFile parse(const OpenOptions& options, ops::Registry& registry) {
  std::vector<plan::Finding> findings;
  plan::RuleFile rules = plan::parse_rules(options.rules, options.rules_path, findings);
  plan::load_plugins(options.plugins, rules, registry, findings);
  fail_on_errors(findings);
  return rules;
}

}  // namespace

OpenModel::OpenModel(const std::filesystem::path& path, const OpenOptions& options)
    : source_(formats::open_weights(path)),
      blueprint_(make_blueprint(source_->config(), source_.get())),
      registry_(ops::builtin_operators()),
      rules_(parse(options, registry_)),
      planned_(plan::make_plan(blueprint_, rules_, registry_, options.machine)),
      pool_(options.num_threads, options.processors) {
  fail_on_errors(planned_.findings);
  if (source_->tensors().empty()) fail(path.string(), ": has no weights");
  model_ = std::make_unique<Model>(planned_.plan, *source_, pool_, options.repack);
}

}  // namespace graft::models
