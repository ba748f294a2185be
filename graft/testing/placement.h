// For tests: a model placed by rules on the devices of the test.

#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/model.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/ops/registry.h"
#include "graft/plan/plan.h"
#include "graft/plan/report.h"
#include "graft/plan/rules/rules.h"

namespace graft::models::testing {

inline constexpr const char* kCpuOnly = R"yaml(
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: cpu}}
)yaml";

// f32 arithmetic on the CPU.
inline constexpr const char* kExactCpu = R"yaml(
- match: {role: kv_cache}
  replace: {class: default, kwargs: {device: cpu, dtype: f32}}
- match: {role: linear}
  replace: {class: default, kwargs: {device: cpu, repack: false}}
- match: {role: experts}
  replace: {class: default, kwargs: {device: cpu, repack: false}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: cpu}}
)yaml";

// The same on a GPU.
inline constexpr const char* kExactGpu = R"yaml(
- match: {role: kv_cache}
  replace: {class: default, kwargs: {device: "cuda:0", dtype: f32}}
- match: {role: linear}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {role: experts}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

inline constexpr const char* kFastGpu = R"yaml(
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

using AddDevices = std::function<void(ops::Registry&)>;

// A model of a checkpoint placed by rules on the CPU and other devices. One thread: two tests with
// two each would wait for each other's CPU most of the time.
class PlacedModel {
 public:
  PlacedModel(const std::filesystem::path& folder,
              const std::string& rules,
              const AddDevices& add_devices,
              int num_gpus = 2)
      : source_(open_checkpoint(folder)),
        blueprint_(make_blueprint(*source_)),
        registry_(ops::builtin_operators()),
        pool_(1) {
    add_devices(registry_);
    std::vector<plan::Finding> findings;
    rules_ = plan::parse_rules(rules, "placement.yaml", findings);
    planned_ = plan::make_plan(blueprint_, rules_, registry_, {.num_gpus = num_gpus});
    findings.insert(findings.end(), planned_.findings.begin(), planned_.findings.end());
    findings_ = plan::findings_text(findings);
    if (planned_.ok()) model_ = std::make_unique<Model>(planned_.plan, *source_, pool_);
  }

  bool ok() const { return model_ != nullptr; }
  // Only if ok().
  Model& model() { return *model_; }
  const Checkpoint& checkpoint() const { return *source_; }
  const std::string& findings() const { return findings_; }
  const plan::Plan& plan() const { return planned_.plan; }

 private:
  std::unique_ptr<Checkpoint> source_;
  plan::Blueprint blueprint_;
  ops::Registry registry_;
  plan::RuleFile rules_;
  plan::PlanResult planned_;
  ThreadPool pool_;
  std::string findings_;
  std::unique_ptr<Model> model_;
};

}  // namespace graft::models::testing
