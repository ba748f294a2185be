#include "graft/formats/integers/integer_config.h"

#include <algorithm>
#include <optional>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/str.h"

namespace graft::formats {
namespace {

constexpr std::string_view kPattern = "re:";

void expect_bits(const Fields& fields, std::string_view key, std::int64_t bits) {
  if (bits != 4 && bits != 8) fields.problem(key, bits, "4 or 8");
}

// Groups of modules may differ in group size and symmetry, which the tensors show, not in bits.
void read_compressed(const Fields& quantization, IntegerConfig& config) {
  const Fields groups = quantization.object("config_groups");
  const Json* all = quantization.find("config_groups");
  if (all == nullptr || !all->is_object()) return;
  std::optional<std::int64_t> bits;
  for (auto group = all->begin(); group != all->end(); ++group) {
    const Fields weights = groups.object(group.key()).object("weights");
    if (!weights.has("num_bits") || weights.text("type", "int") != "int") continue;
    const std::int64_t num_bits = weights.integer("num_bits", 8);
    expect_bits(weights, "num_bits", num_bits);
    if (bits && *bits != num_bits)
      weights.problem("num_bits", num_bits, str(*bits, " as in the other groups"));
    if (!bits) config.symmetric = weights.boolean("symmetric", true);
    bits = num_bits;
  }
  if (!bits) return;
  config.method = IntegerMethod::CompressedTensors;
  config.bits = *bits;
  config.ignored = quantization.texts("ignore");
}

void read_gptq(const Fields& quantization, IntegerConfig& config) {
  config.method = IntegerMethod::Gptq;
  config.bits = quantization.integer("bits", 4);
  expect_bits(quantization, "bits", config.bits);
  config.symmetric = quantization.boolean("sym", true);
  if (config.bits == 8 && !config.symmetric)
    quantization.problem("sym", false, "true: codes of 8 bits have no zero points here");
  const std::string format = quantization.text("checkpoint_format", "gptq");
  if (format != "gptq" && format != "gptq_v2")
    quantization.problem("checkpoint_format", format, "gptq or gptq_v2");
  config.zeros_minus_one = format == "gptq";
  config.ignored = quantization.texts("modules_to_not_convert");
}

void read_awq(const Fields& quantization, IntegerConfig& config) {
  config.method = IntegerMethod::Awq;
  config.bits = quantization.integer("bits", 4);
  if (config.bits != 4) quantization.problem("bits", config.bits, "4");
  config.symmetric = !quantization.boolean("zero_point", true);
  const std::string version = quantization.text("version", "gemm");
  if (!equal_ignoring_case(version, "gemm")) quantization.problem("version", version, "gemm");
  config.ignored = quantization.texts("modules_to_not_convert");
}

}  // namespace

IntegerConfig read_integer_config(const Fields& quantization) {
  IntegerConfig config;
  const std::string method = quantization.text("quant_method", "");
  if (method == "compressed-tensors") read_compressed(quantization, config);
  if (method == "gptq") read_gptq(quantization, config);
  if (method == "awq") read_awq(quantization, config);
  return config;
}

DType integer_dtype(std::int64_t bits, bool symmetric) {
  if (bits == 8) return DType::Q8_0;
  return symmetric ? DType::Q4_0 : DType::Q5_0;
}

IgnoredModules::IgnoredModules(const IntegerConfig& config)
    : are_parts_(config.method != IntegerMethod::CompressedTensors) {
  for (const std::string& name : config.ignored) {
    if (!name.starts_with(kPattern)) {
      names_.push_back(name);
      continue;
    }
    try {
      patterns_.emplace_back(str("^(?:", name.substr(kPattern.size()), ")"));
    } catch (const Error& error) {
      fail("quantization_config.ignore \"", name, "\": ", error.what());
    }
  }
}

bool IgnoredModules::contains(std::string_view module) const {
  const bool is_named = std::ranges::any_of(names_, [&](const std::string& name) {
    return are_parts_ ? module.find(name) != std::string_view::npos : module == name;
  });
  return is_named || std::ranges::any_of(
                         patterns_, [&](const Regex& pattern) { return pattern.search(module); });
}

}  // namespace graft::formats
