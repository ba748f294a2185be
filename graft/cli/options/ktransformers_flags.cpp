#include "graft/cli/options/ktransformers_flags.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

enum class Meaning : std::uint8_t {
  Renamed,    // same value, other name
  Model,      // --gguf_path overrides --model_path, which KTransformers uses for the tokenizer
  Think,      // true: --think=on
  CudaGraph,  // false: --enforce-eager
  Mode,       // KTransformers' cache mode; ignored
};

struct FlagRow {
  std::string_view from;
  std::string_view to;
  Meaning meaning;
};

constexpr std::array kFlagRows = {
    FlagRow{"--model_path", "--model", Meaning::Model},
    FlagRow{"--gguf_path", "--model", Meaning::Model},
    FlagRow{"--optimize_config_path", "--rules", Meaning::Renamed},
    FlagRow{"--max_new_tokens", "--max-new-tokens", Meaning::Renamed},
    FlagRow{"--cpu_infer", "--threads", Meaning::Renamed},
    FlagRow{"--prompt_file", "--prompt-file", Meaning::Renamed},
    FlagRow{"--chunk_size", "--chunk-prefill", Meaning::Renamed},
    FlagRow{"--force_think", "--think", Meaning::Think},
    FlagRow{"--use_cuda_graph", "--enforce-eager", Meaning::CudaGraph},
    FlagRow{"--mode", "", Meaning::Mode},
};

bool truth_of(std::string_view flag, std::string value) {
  std::ranges::transform(value, value.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (value == "true" || value == "1") return true;
  if (value == "false" || value == "0") return false;
  fail(flag, ": expected true or false, got \"", value, "\"");
}

class Translator {
 public:
  explicit Translator(const std::vector<std::string>& arguments) : in_(arguments) {}

  std::vector<std::string> run() {
    while (at_ < in_.size())
      translate_next();
    if (!model_.empty()) {
      out_.emplace_back("--model");
      out_.push_back(model_);
    }
    return out_;
  }

 private:
  void translate_next() {
    const std::string& argument = in_[at_++];
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const std::string name = argument.substr(0, equals);
    const auto* row = std::ranges::find(kFlagRows, name, &FlagRow::from);
    if (row == kFlagRows.end()) {
      out_.push_back(argument);
      return;
    }
    std::optional<std::string> value;
    if (equals < argument.size()) {
      value = argument.substr(equals + 1);
    } else if (at_ < in_.size() && !in_[at_].starts_with("--")) {
      value = in_[at_++];
    }
    translate(*row, value);
  }

  void translate(const FlagRow& row, const std::optional<std::string>& value) {
    // A boolean flag without a value means true.
    const auto is_true = [&] { return !value || truth_of(row.from, *value); };
    switch (row.meaning) {
      case Meaning::Think:
        if (is_true()) out_.emplace_back("--think=on");
        return;
      case Meaning::CudaGraph:
        if (!is_true()) out_.emplace_back(row.to);
        return;
      case Meaning::Mode:
        return;
      case Meaning::Model:
      case Meaning::Renamed:
        break;
    }
    if (!value) fail(row.from, ": missing value");
    if (row.meaning == Meaning::Renamed) {
      out_.emplace_back(row.to);
      out_.push_back(*value);
    } else if (row.from == "--gguf_path" || model_.empty()) {
      model_ = *value;
    }
  }

  const std::vector<std::string>& in_;
  std::size_t at_ = 0;
  std::vector<std::string> out_;
  std::string model_;
};

}  // namespace

std::vector<std::string> translate_ktransformers(const std::vector<std::string>& arguments) {
  return Translator(arguments).run();
}

}  // namespace graft::cli
