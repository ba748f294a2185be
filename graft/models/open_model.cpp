#include "graft/models/open_model.h"

#include "graft/base/error.h"
#include "graft/models/family.h"

namespace graft::models {
namespace {

plan::RuleFile parse(const OpenOptions& options) {
  std::vector<plan::Finding> findings;
  plan::RuleFile rules = plan::parse_rules(options.rules, options.rules_path, findings);
  if (plan::has_errors(findings)) fail(plan::findings_text(findings));
  return rules;
}

}  // namespace

OpenModel::OpenModel(const std::filesystem::path& path, const OpenOptions& options)
    : source_(formats::open_weights(path)),
      blueprint_(make_blueprint(source_->config(), source_.get())),
      registry_(ops::builtin_operators()),
      rules_(parse(options)),
      planned_(plan::make_plan(blueprint_, rules_, registry_, options.machine)),
      pool_(options.num_threads) {
  if (!planned_.ok()) fail(plan::findings_text(planned_.findings));
  if (source_->tensors().empty()) fail(path.string(), ": has no weights");
  model_ = std::make_unique<Model>(planned_.plan, *source_, pool_);
}

}  // namespace graft::models
