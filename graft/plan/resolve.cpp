#include "graft/plan/resolve.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "graft/base/text/ascii.h"
#include "graft/ops/builtin_kwargs.h"

namespace graft::plan {
namespace {

constexpr const char* kQuantizeKey = "quantize";
// Words for the types of a KV cache; those of `dtype` stand for themselves.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kCacheTypeWords = {{
    {"int8", "q8_0"},
    {"int4", "q4_0"},
    {"fp8_e4m3", "fp8"},
    {"fp16", "f16"},
    {"float16", "f16"},
    {"bfloat16", "bf16"},
    {"fp32", "f32"},
    {"float32", "f32"},
}};

bool is_placement_key(std::string_view key) {
  return std::find(kPlacementKeys.begin(), kPlacementKeys.end(), key) != kPlacementKeys.end();
}

class Resolver {
 public:
  Resolver(const Rule& rule,
           const PlannedOperators& operators,
           std::span<const ClassAlias> class_aliases,
           MissingGpus& missing_gpus,
           Collector& findings)
      : rule_(rule),
        operators_(operators),
        registry_(operators.registry()),
        class_aliases_(class_aliases),
        missing_gpus_(missing_gpus),
        findings_(findings) {
    out_.rule = &rule;
  }

  ResolvedRule run() {
    resolve_class();
    const std::optional<Device> both = device("device");
    out_.decode.device = device("generate_device");
    out_.prefill.device = device("prefill_device");
    if (!out_.decode.device) out_.decode.device = both;
    if (!out_.prefill.device) out_.prefill.device = both;
    out_.out_device = device("out_device");
    resolve_op("generate_op", out_.decode);
    resolve_op("prefill_op", out_.prefill);
    for (const auto& [layer, word] : rule_.transfer_map) {
      if (const auto to = device_named(word, rule_.line_of("transfer_map"))) {
        out_.transfer_map.emplace(layer, *to);
      }
    }
    for (const auto& [key, value] : rule_.kwargs) {
      if (!is_placement_key(key) && key != kQuantizeKey) out_.kwargs.emplace(key, value);
    }
    resolve_cache_type();
    return std::move(out_);
  }

 private:
  // `quantize` of a KV cache is another word for its dtype.
  void resolve_cache_type() {
    const auto found = rule_.kwargs.find(kQuantizeKey);
    if (found == rule_.kwargs.end() || ops::parse_bool(found->second) == false) return;
    const auto type = std::ranges::find(kCacheTypeWords, lower_case(found->second),
                                        [](const auto& row) { return row.first; });
    const std::string word(type == kCacheTypeWords.end() ? found->second : type->second);
    const std::string& key = ops::cache_type_kwarg().key;
    if (!out_.kwargs.emplace(key, word).second)
      report_error(rule_.line_of(kQuantizeKey), kQuantizeKey, " and ", key, ": set one of them");
  }

  template <class... Parts>
  void report_error(int line, const Parts&... parts) {
    out_.usable = false;
    findings_.error(line, str(parts...));
  }

  void unsupported_platform(int line, std::string_view word, std::string_view platform) {
    report_error(line, word, " needs ", platform,
                 ", which this build does not support (supported: cpu, cuda)");
  }

  void resolve_class() {
    const std::string& word = rule_.replace_class;
    out_.decode.line = out_.prefill.line = rule_.class_line;
    if (word == "default") return;
    if (const auto role = ops::role_from_name(word)) {
      out_.role = role;
    } else if (const auto* op = operators_.find(word)) {
      out_.role = op->role;
      out_.decode.op.named = out_.prefill.op.named = op;
    } else if (const ClassAlias* alias = find_class_alias(word, class_aliases_)) {
      out_.role = alias->role;
      if (alias->platform != Platform::Any) {
        unsupported_platform(rule_.class_line, word, name(alias->platform));
      }
    } else if (const OpAlias* op_alias = find_op_alias(word)) {
      out_.role = op_alias->role;
      set_alias(*op_alias, out_.decode, rule_.class_line);
      out_.prefill.op = out_.decode.op;
    } else {
      unknown_class(word);
    }
  }

  void unknown_class(const std::string& word) {
    std::string hint = str("use \"default\", a role, a KTransformers class or one of ",
                           operator_list(registry_.all()));
    // "cuda.linear" in a build without CUDA: list the operators of that role only.
    if (const auto role = ops::role_from_name(word.substr(word.rfind('.') + 1))) {
      hint = str(ops::name(*role), ": ", operator_list(registry_.of_role(*role)));
    }
    report_error(rule_.class_line, "no operator \"", word, "\" in this build (", hint, ")");
  }

  void set_alias(const OpAlias& alias, PhaseRequest& phase, int line) {
    phase.op = {.none = false, .named = nullptr, .alias = &alias};
    if (alias.platform != Platform::Any)
      unsupported_platform(line, alias.name, name(alias.platform));
  }

  void resolve_op(const char* key, PhaseRequest& phase) {
    const auto found = rule_.kwargs.find(key);
    if (found == rule_.kwargs.end()) return;
    const std::string& word = found->second;
    phase.line = rule_.line_of(key);
    if (word == "None") {
      phase.op = {.none = true, .named = nullptr, .alias = nullptr};
    } else if (word == "default") {
      phase.op = {};
    } else if (const auto* op = operators_.find(word)) {
      phase.op = {.none = false, .named = op, .alias = nullptr};
    } else if (const OpAlias* alias = find_op_alias(word)) {
      set_alias(*alias, phase, phase.line);
    } else {
      const ops::Role role = out_.role.value_or(rule_.role.value_or(ops::Role::Linear));
      report_error(phase.line, key, ": no operator \"", word, "\" in this build (", ops::name(role),
                   ": ", operator_list(registry_.of_role(role)),
                   "; known names: ", op_alias_list(role), ")");
    }
  }

  std::optional<Device> device(const char* key) {
    const auto found = rule_.kwargs.find(key);
    if (found == rule_.kwargs.end()) return std::nullopt;
    return device_named(found->second, rule_.line_of(key));
  }

  std::optional<Device> device_named(const std::string& word, int line) {
    if (is_foreign_device(word)) {
      report_error(line, "device ", word, " is not supported by this build (supported: cpu, cuda)");
      return std::nullopt;
    }
    const auto found = device_from_name(word);
    if (!found) {
      report_error(line, "unknown device \"", word, "\" (known: cpu, cuda, cuda:0, cuda:1, …)");
      return std::nullopt;
    }
    missing_gpus_.add(rule_, line, *found);
    return found;
  }

  const Rule& rule_;
  const PlannedOperators& operators_;
  const ops::Registry& registry_;
  std::span<const ClassAlias> class_aliases_;
  MissingGpus& missing_gpus_;
  Collector& findings_;
  ResolvedRule out_;
};

}  // namespace

std::optional<DeviceType> OpRequest::device_type() const {
  if (named != nullptr) return named->device;
  if (alias != nullptr) return alias->device;
  return std::nullopt;
}

ResolvedRule resolve(const Rule& rule,
                     const PlannedOperators& operators,
                     std::span<const ClassAlias> class_aliases,
                     MissingGpus& missing_gpus,
                     Collector& findings) {
  return Resolver(rule, operators, class_aliases, missing_gpus, findings).run();
}

std::string operator_list(const std::vector<const ops::OperatorInfo*>& operators) {
  std::vector<std::string> names;
  names.reserve(operators.size());
  for (const ops::OperatorInfo* op : operators)
    names.push_back(op->name);
  return join(names);
}

}  // namespace graft::plan
