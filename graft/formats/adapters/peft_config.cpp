#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/text/regex.h"
#include "graft/formats/adapters/adapter_file.h"

namespace graft::formats {
namespace {

// Larger values are damage.
constexpr double kMaxValue = 1e6;
constexpr std::size_t kMaxPatterns = 1 << 16;

// Features that change the result, by their field: set to anything but null, false or empty they
// are refused.
struct Feature {
  const char* field;
  const char* what;
};
constexpr std::array kUnsupportedFeatures = {
    Feature{"use_dora", "DoRA (weight-decomposed adapters)"},
    Feature{"fan_in_fan_out", "transposed weights"},
    Feature{"lora_bias", "a bias of B"},
    Feature{"modules_to_save", "whole modules of the adapter"},
    Feature{"target_parameters", "adapters of routed experts"},
    Feature{"trainable_token_indices", "embeddings of the adapter"},
    Feature{"layer_replication", "replicated layers"},
    Feature{"alora_invocation_tokens", "activated adapters (aLoRA)"},
    Feature{"arrow_config", "Arrow routing"},
    Feature{"use_qalora", "QA-LoRA"},
    Feature{"use_bdlora", "block-diagonal adapters"},
    Feature{"kasa_config", "KaSA"},
    Feature{"monteclora_config", "MonteCLoRA"}};

bool is_set(const Json& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_array() || value.is_object()) return !value.empty();
  return true;
}

std::string text_of(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  constexpr std::size_t kMaxShown = 60;
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "…";
  return text;
}

double number_of(const Json& value,
                 std::string_view field,
                 bool is_integer,
                 const std::string& where) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  const bool is_valid = std::isfinite(number) && std::fabs(number) <= kMaxValue &&
                        (!is_integer || (value.is_number_integer() && number >= 1));
  if (!is_valid) {
    fail(where, ": \"", field, "\" is ", text_of(value), ", expected ",
         is_integer ? "a positive integer" : "a number");
  }
  return number;
}

std::map<std::string, double> patterns_of(const Json& config,
                                          const char* field,
                                          bool is_integer,
                                          const std::string& where) {
  std::map<std::string, double> patterns;
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return patterns;
  if (!found->is_object() || found->size() > kMaxPatterns)
    fail(where, ": \"", field, "\" is ", text_of(*found), ", expected an object");
  for (const auto& [pattern, value] : found->items())
    patterns[pattern] = number_of(value, str(field, ".", pattern), is_integer, where);
  return patterns;
}

void refuse_unsupported(const Json& config, const std::string& where) {
  for (const Feature& feature : kUnsupportedFeatures) {
    const auto found = config.find(feature.field);
    if (found == config.end() || !is_set(*found)) continue;
    fail(where, ": \"", feature.field, "\" is ", text_of(*found), ": ", feature.what,
         " are not supported");
  }
  const auto bias = config.find("bias");
  if (bias != config.end() && !bias->is_null() && *bias != "none")
    fail(where, ": \"bias\" is ", text_of(*bias), ": biases of adapters are not supported");
}

bool flag_of(const Json& config, const char* field, const std::string& where) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return false;
  if (!found->is_boolean())
    fail(where, ": \"", field, "\" is ", text_of(*found), ", expected true or false");
  return found->get<bool>();
}

}  // namespace

PeftConfig::PeftConfig(const Json& config, const std::string& where) : where_(where) {
  if (!config.is_object()) fail(where, ": expected a JSON object");
  const auto type = config.find("peft_type");
  if (type == config.end() || *type != "LORA") {
    fail(where, ": \"peft_type\" is ", type == config.end() ? "missing" : text_of(*type),
         ", only LORA adapters are supported");
  }
  refuse_unsupported(config, where);
  is_rank_stabilized_ = flag_of(config, "use_rslora", where);
  if (const auto rank = config.find("r"); rank != config.end())
    rank_ = number_of(*rank, "r", true, where);
  if (const auto alpha = config.find("lora_alpha"); alpha != config.end())
    alpha_ = number_of(*alpha, "lora_alpha", false, where);
  rank_pattern_ = patterns_of(config, "rank_pattern", true, where);
  alpha_pattern_ = patterns_of(config, "alpha_pattern", false, where);
  const auto base = config.find("base_model_name_or_path");
  if (base != config.end() && base->is_string()) base_model_ = base->get<std::string>();
}

// A key matches a module that it is the end of, at a component, as a regular expression.
double PeftConfig::value_of(const std::map<std::string, double>& patterns,
                            std::string_view module,
                            double fallback) const {
  for (const auto& [pattern, value] : patterns) {
    try {
      if (Regex(str("^(?:.*\\.)?(?:", pattern, ")$")).search(module)) return value;
    } catch (const Error& error) {
      fail(where_, ": pattern \"", pattern, "\": ", error.what());
    }
  }
  return fallback;
}

std::int64_t PeftConfig::rank_of(std::string_view module) const {
  return static_cast<std::int64_t>(value_of(rank_pattern_, module, rank_));
}

double PeftConfig::scale_of(std::string_view module) const {
  const double rank = value_of(rank_pattern_, module, rank_);
  const double alpha = value_of(alpha_pattern_, module, alpha_);
  return alpha / (is_rank_stabilized_ ? std::sqrt(rank) : rank);
}

}  // namespace graft::formats
