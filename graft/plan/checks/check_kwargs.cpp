#include "graft/plan/checks/check_kwargs.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/kwargs.h"
#include "graft/plan/resolve.h"
#include "graft/plan/rules/aliases.h"
#include "graft/plan/rules/stream_from.h"

namespace graft::plan {
namespace {

using ops::Kwarg;
using ops::OperatorInfo;
using ops::Role;

// KTransformers kwargs that any operator of a role accepts. An operator that does not declare one
// ignores it; a value other than `neutral` is then a warning.
struct RoleKey {
  std::string_view key;
  Role role;
  std::string_view neutral;  // the value that changes nothing
};
constexpr std::array kRoleKeys = {
    RoleKey{"backend", Role::Experts, "llamafile"},
    RoleKey{"absorb_for_prefill", Role::Attention, "false"},
    RoleKey{kPrefillThreshold, Role::Model, "0"},
    RoleKey{"max_cache_size", Role::KvCache, "0"},
    RoleKey{"chunk_size", Role::KvCache, "0"},
};

// Null for other keys.
const RoleKey* find_role_key(std::string_view key) {
  const auto* found = std::find_if(kRoleKeys.begin(), kRoleKeys.end(),
                                   [&](const RoleKey& row) { return row.key == key; });
  return found == kRoleKeys.end() ? nullptr : found;
}

class Check {
 public:
  Check(const Placement& placement, const Rule& rule, Collector& findings)
      : placement_(placement),
        module_(*placement.module),
        rule_(rule),
        findings_(findings),
        is_unknown_(!is_structural(module_.role) &&
                    (placement.decode.op == nullptr || running_prefill() == nullptr)) {}

  void run() {
    for (const auto& [key, value] : placement_.kwargs) {
      if (key == ops::gpu_experts_kwarg().key && !check_gpu_experts()) continue;
      bool is_declared = check_value(placement_.decode.op, key, value);
      if (running_prefill() != placement_.decode.op)
        is_declared = check_value(running_prefill(), key, value) || is_declared;
      if (is_declared) continue;
      if (const RoleKey* row = find_role_key(key)) {
        check_role_key(*row, value);
      } else if (!is_unknown_) {
        report_unknown(key);
      }
    }
  }

 private:
  const OperatorInfo* running_prefill() const { return placement_.running(ops::Phase::Prefill).op; }

  // Whether the module can have experts on a GPU and the CPU.
  bool check_gpu_experts() {
    const std::string& key = ops::gpu_experts_kwarg().key;
    const Device decode = placement_.decode.device();
    const Device prefill = placement_.running(ops::Phase::Prefill).device();
    if (module_.role != Role::Experts) {
      findings_.error(rule_.line_of(key),
                      str(key, " is a kwarg of experts, the module is ", ops::name(module_.role)),
                      &module_, str("role of ", key));
      return false;
    }
    if (decode == kCpu && prefill != kCpu) return true;
    findings_.error(
        rule_.line_of(key),
        str(key, " needs generate_device: cpu and a GPU as prefill_device; here decode ",
            "runs on ", to_string(decode), " and prefill on ", to_string(prefill)),
        &module_, str("devices of ", key));
    return false;
  }

  // Whether the operator declares the key.
  bool check_value(const OperatorInfo* op, const std::string& key, const std::string& value) {
    const Kwarg* kwarg = op == nullptr ? nullptr : op->find_kwarg(key);
    if (kwarg == nullptr) return false;
    const int line = rule_.line_of(key);
    const std::string problem = ops::value_problem(*kwarg, value, module_.params);
    if (!problem.empty()) {
      findings_.error(line, str(op->name, ": ", problem), &module_, str("value of ", key));
    }
    return true;
  }

  void check_role_key(const RoleKey& row, const std::string& value) {
    const int line = rule_.line_of(std::string(row.key));
    const OperatorInfo* op = placement_.decode.op;
    if (row.role != module_.role) {
      findings_.error(line,
                      str(row.key, " is a kwarg of ", ops::name(row.role), ", the module is ",
                          ops::name(module_.role)),
                      &module_, str("role of ", row.key));
    } else if (row.role == Role::Experts && !is_backend(value)) {
      findings_.error(line, str("unknown backend \"", value, "\" (known: ", backend_list(), ")"));
    } else if (row.role == Role::Attention && !ops::parse_bool(value)) {
      findings_.error(line, str(row.key, " must be true or false, not \"", value, "\""));
    } else if (row.key == kPrefillThreshold) {
      // apply_prefill_threshold() reads it when all modules are placed.
    } else if (row.role == Role::KvCache) {
      findings_.warning(line,
                        row.key == "chunk_size"
                            ? str("chunk_size: ", value,
                                  " has no effect: --chunk-prefill, in serve "
                                  "--max-num-batched-tokens, bounds the tokens of a step")
                            : str("max_cache_size: ", value,
                                  " has no effect: all layers have as many blocks; --kv-blocks "
                                  "sets their number, --max-model-len the longest sequence"));
    } else if (!is_neutral(row, value) && (op != nullptr || is_structural(module_.role))) {
      findings_.warning(line, str(row.key, ": ", value, " has no effect: ",
                                  op == nullptr ? "this build" : op->name, " does not support it"));
    }
  }

  static bool is_neutral(const RoleKey& row, const std::string& value) {
    if (row.role != Role::Attention) return value == row.neutral;
    return ops::parse_bool(value) == ops::parse_bool(row.neutral);
  }

  void report_unknown(const std::string& key) {
    std::vector<std::string> known(kPlacementKeys.begin(), kPlacementKeys.end());
    const OperatorInfo* op = placement_.decode.op;
    for (const RoleKey& row : kRoleKeys) {
      const bool is_declared = op != nullptr && op->find_kwarg(row.key) != nullptr;
      if (row.role == module_.role && !is_declared) known.emplace_back(row.key);
    }
    if (module_.role == Role::Model) known.emplace_back("transfer_map");
    if (op != nullptr) {
      for (const Kwarg& kwarg : op->kwargs)
        known.push_back(kwarg.key);
    }
    findings_.error(rule_.line_of(key),
                    str("unknown kwarg \"", key, "\" of ",
                        op == nullptr ? std::string(ops::name(module_.role)) : op->name,
                        " (known: ", join(known), ")"),
                    &module_, str("unknown kwarg ", key));
  }

  const Placement& placement_;
  const ModuleSpec& module_;
  const Rule& rule_;
  Collector& findings_;
  bool is_unknown_;  // whether the operator of a phase is not known
};

}  // namespace

void check_kwargs(const Placement& placement, const Rule& rule, Collector& findings) {
  Check(placement, rule, findings).run();
}

}  // namespace graft::plan
