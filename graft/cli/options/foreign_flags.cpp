#include "graft/cli/options/foreign_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/json.h"

namespace graft::cli {
namespace {

enum class Meaning : std::uint8_t {
  Renamed,      // same value, other name
  Prefill,      // tokens of a prefill chunk: the flag depends on the command
  CacheTokens,  // tokens of the KV cache: --kv-blocks
  Gibibytes,    // a number of GiB: the same flag with the unit
  Mebibytes,
  Model,      // the last of these wins; --gguf-path over --model-path
  ModelName,  // the name under which the model is served
  Think,      // true: --think=on
  CudaGraph,  // false: --enforce-eager
  GpuLayers,  // 0: --device cpu; all: placed automatically, as without it
  KeyType,    // of the KV cache; keys and values must have the same
  ValueType,
  Only,     // `to`, a list "a|b": accepted values, which are what graft does anyway
  Refused,  // `to` says why, or graft's way
};

struct FlagRow {
  std::string_view from;
  std::string_view to;
  Meaning meaning;
};

constexpr std::string_view kTrue = "true|True|1|on|auto";
constexpr std::string_view kPlacement =
    "modules are placed automatically; a rule file (--rules, docs/rules.md) places them by name";
constexpr std::string_view kOneGpu = "1";

constexpr auto kFlagRows = std::to_array<FlagRow>({
    // KTransformers
    {"--model-path", "--model", Meaning::Model},
    {"--gguf-path", "--model", Meaning::Model},
    {"--model-name", "", Meaning::ModelName},
    {"--optimize-config-path", "--rules", Meaning::Renamed},
    {"--cpu-infer", "--threads", Meaning::Renamed},
    {"--chunk-size", "", Meaning::Prefill},
    {"--chunk-prefill-size", "", Meaning::Prefill},
    {"--cache-lens", "--kv-blocks", Meaning::CacheTokens},
    {"--max-batch-size", "--max-num-seqs", Meaning::Renamed},
    {"--cpu-memory-size-GB", "--kv-host", Meaning::Gibibytes},
    {"--force-think", "--think", Meaning::Think},
    {"--use-cuda-graph", "--enforce-eager", Meaning::CudaGraph},
    {"--mode", "normal", Meaning::Only},
    {"--backend-type", "ktransformers|balance_serve", Meaning::Only},
    {"--web", kTrue, Meaning::Only},
    {"--tp", kOneGpu, Meaning::Only},
    {"--ssl-keyfile", "--tls-key", Meaning::Renamed},
    {"--ssl-certfile", "--tls-cert", Meaning::Renamed},
    {"--architectures", "the architecture is read from the checkpoint", Meaning::Refused},
    {"--page-size", "the rule of kv_cache has block_tokens", Meaning::Refused},
    // vLLM
    {"--tensor-parallel-size", kOneGpu, Meaning::Only},
    {"-tp", kOneGpu, Meaning::Only},
    {"--pipeline-parallel-size", kOneGpu, Meaning::Only},
    {"--served-model-name", "", Meaning::ModelName},
    {"--swap-space", "--kv-host", Meaning::Gibibytes},
    {"--dtype", "auto", Meaning::Only},
    {"--enable-prefix-caching", kTrue, Meaning::Only},
    {"--enable-chunked-prefill", kTrue, Meaning::Only},
    {"--enable-lora", kTrue, Meaning::Only},
    {"--lora-modules", "--lora", Meaning::Renamed},
    {"--enable-auto-tool-choice", kTrue, Meaning::Only},
    {"--tool-call-parser", "the format of calls follows the model", Meaning::Refused},
    {"--reasoning-parser", "the format of reasoning follows the model", Meaning::Refused},
    {"--quantization", "types are read from the checkpoint; `graft quantize` changes them",
     Meaning::Refused},
    {"--cpu-offload-gb", kPlacement, Meaning::Refused},
    {"--block-size", "the rule of kv_cache has block_tokens", Meaning::Refused},
    {"--trust-remote-code", "graft runs no code of checkpoints", Meaning::Refused},
    {"--api-key",
     "a key on the command line is visible to other users; use --api-key-file or GRAFT_API_KEYS",
     Meaning::Refused},
    // llama.cpp
    {"-c", "--max-model-len", Meaning::Renamed},
    {"--ctx-size", "--max-model-len", Meaning::Renamed},
    {"-np", "--max-num-seqs", Meaning::Renamed},
    {"--parallel", "--max-num-seqs", Meaning::Renamed},
    {"-a", "", Meaning::ModelName},
    {"--alias", "", Meaning::ModelName},
    {"-hf", "--model", Meaning::Model},
    {"--hf-repo", "--model", Meaning::Model},
    {"--n-predict", "--max-new-tokens", Meaning::Renamed},
    {"--temp", "--temperature", Meaning::Renamed},
    {"--cache-ram", "--kv-host", Meaning::Mebibytes},
    {"-ngl", "--device", Meaning::GpuLayers},
    {"--gpu-layers", "--device", Meaning::GpuLayers},
    {"--n-gpu-layers", "--device", Meaning::GpuLayers},
    {"-fa", kTrue, Meaning::Only},
    {"--flash-attn", kTrue, Meaning::Only},
    {"-cb", kTrue, Meaning::Only},
    {"--cont-batching", kTrue, Meaning::Only},
    {"--jinja", kTrue, Meaning::Only},
    {"-ot", kPlacement, Meaning::Refused},
    {"--override-tensor", kPlacement, Meaning::Refused},
    {"-cmoe", kPlacement, Meaning::Refused},
    {"--cpu-moe", kPlacement, Meaning::Refused},
    {"-ncmoe", kPlacement, Meaning::Refused},
    {"--n-cpu-moe", kPlacement, Meaning::Refused},
    {"-ctk", "--kv-cache-dtype", Meaning::KeyType},
    {"-ctv", "--kv-cache-dtype", Meaning::ValueType},
    {"--cache-type-k", "--kv-cache-dtype", Meaning::KeyType},
    {"--cache-type-v", "--kv-cache-dtype", Meaning::ValueType},
    {"-b", "--max-num-batched-tokens of `graft serve` bounds a step", Meaning::Refused},
    {"-ub", "--max-num-batched-tokens of `graft serve` bounds a step", Meaning::Refused},
    {"--no-mmap", "weights are repacked into memory already", Meaning::Refused},
});

constexpr std::int64_t kBlockTokens = 16;  // the default of the rules
constexpr std::int64_t kAllLayers = 99;    // what people write for "all"

// "--max_new_tokens=a_b" becomes "--max-new-tokens=a_b".
std::string with_hyphens(std::string argument) {
  if (!argument.starts_with("--")) return argument;
  const std::size_t end = std::min(argument.find('='), argument.size());
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return argument;
}

bool truth_of(std::string_view flag, const std::string& value) {
  const std::string lower = lower_case(value);
  if (lower == "true" || lower == "1") return true;
  if (lower == "false" || lower == "0") return false;
  fail(flag, ": expected true or false, got \"", value, "\"");
}

std::int64_t flag_number(std::string_view flag, const std::string& value) {
  std::int64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || number < 0)
    fail(flag, ": expected a number, got \"", value, "\"");
  return number;
}

void check_is_one_of(const FlagRow& row, const std::optional<std::string>& value) {
  if (!value) return;
  for (std::string_view rest = row.to; !rest.empty();) {
    const std::size_t bar = std::min(rest.find('|'), rest.size());
    if (rest.substr(0, bar) == *value) return;
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  std::string expected(row.to == kTrue ? "true" : row.to);
  std::ranges::replace(expected, '|', ' ');
  fail(row.from, ": graft supports only ", expected, ", got \"", *value, "\"");
}

class Translator {
 public:
  explicit Translator(const std::vector<std::string>& arguments)
      : in_(arguments), is_serve_(!arguments.empty() && arguments[0] == "serve") {}

  std::vector<std::string> run() {
    while (at_ < in_.size())
      translate_next();
    add_cache_type();
    add_model();
    return out_;
  }

 private:
  void translate_next() {
    const std::string argument = with_hyphens(in_[at_++]);
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
    } else if (at_ < in_.size() && takes_next(*row)) {
      value = in_[at_++];
    }
    translate(*row, value);
  }

  // The next word may be a prompt after a flag that needs no value.
  bool takes_next(const FlagRow& row) const {
    const std::string& next = in_[at_];
    if (next.starts_with("-")) return false;
    if (row.meaning != Meaning::Only || row.to != kTrue) return true;
    return next == "true" || next == "True" || next == "on" || next == "off" || next == "auto" ||
           next == "false" || next == "False" || next == "0" || next == "1";
  }

  void translate(const FlagRow& row, const std::optional<std::string>& value) {
    if (row.meaning == Meaning::Refused) fail(row.from, ": ", row.to);
    // A boolean flag without a value means true.
    const auto is_true = [&] { return !value || truth_of(row.from, *value); };
    switch (row.meaning) {
      case Meaning::Think:
        if (is_serve_)
          fail(row.from, R"(: requests decide: "reasoning_effort" or "chat_template_kwargs")");
        if (is_true()) out_.emplace_back("--think=on");
        return;
      case Meaning::CudaGraph:
        if (!is_true()) out_.emplace_back(row.to);
        return;
      case Meaning::Only:
        return check_is_one_of(row, value);
      default:
        break;
    }
    if (!value) fail(row.from, ": missing value");
    translate_value(row, *value);
  }

  void translate_value(const FlagRow& row, const std::string& value) {
    switch (row.meaning) {
      case Meaning::Prefill:
        return add(is_serve_ ? "--max-num-batched-tokens" : "--chunk-prefill", value);
      case Meaning::CacheTokens:
        return add(row.to, str((flag_number(row.from, value) + kBlockTokens - 1) / kBlockTokens));
      case Meaning::Gibibytes:
        return add(row.to, str(flag_number(row.from, value), "G"));
      case Meaning::Mebibytes:
        return add(row.to, str(flag_number(row.from, value), "M"));
      case Meaning::GpuLayers:
        return place_layers(row, value);
      case Meaning::ModelName:
        name_ = value;
        return;
      case Meaning::KeyType:
        key_type_ = lower_case(value);
        return;
      case Meaning::ValueType:
        value_type_ = lower_case(value);
        return;
      case Meaning::Model:
        return choose_model(row, value);
      default:
        return add(row.to, value);
    }
  }

  void place_layers(const FlagRow& row, const std::string& value) {
    if (value == "all" || value == "auto") return;
    const std::int64_t layers = flag_number(row.from, value);
    if (layers == 0) return add(row.to, "cpu");
    if (layers < kAllLayers) fail(row.from, " ", layers, ": ", kPlacement);
  }

  // llama.cpp's default of either is f16.
  void add_cache_type() {
    if (key_type_.empty() && value_type_.empty()) return;
    const std::string key = key_type_.empty() ? "f16" : key_type_;
    const std::string value = value_type_.empty() ? "f16" : value_type_;
    if (key != value) {
      fail("--cache-type-k ", key, ", --cache-type-v ", value,
           ": graft stores keys and values in one type; pass both, or --kv-cache-dtype");
    }
    add("--kv-cache-dtype", key);
  }

  // KTransformers takes the tokenizer and the chat template from --model_path, the weights from
  // --gguf_path. GGUF files hold the tokenizer too; a template in the folder wins.
  void choose_model(const FlagRow& row, const std::string& value) {
    if (row.from != "--model-path") {
      model_ = value;
      return;
    }
    folder_ = value;
  }

  void add_model() {
    if (!model_.empty() && !folder_.empty()) add_template();
    const std::string model = model_.empty() ? folder_ : model_;
    if (!model.empty()) add("--model", model);
    if (name_.empty()) return;
    if (!is_serve_) fail("a name to serve the model under: only `graft serve` has one");
    name_model();
  }

  // The template of the folder. Its tokenizer is that of the GGUF file.
  void add_template() {
    const std::filesystem::path folder(folder_);
    std::error_code error;
    const std::filesystem::path jinja = folder / "chat_template.jinja";
    const std::filesystem::path config = folder / "tokenizer_config.json";
    if (std::filesystem::exists(jinja, error)) return add("--chat-template", jinja.string());
    if (!std::filesystem::exists(config, error)) return;
    const Json json = read_json_file(config);
    if (json.is_object() && json.contains("chat_template")) add("--chat-template", config.string());
  }

  // `--model PATH` becomes `--model NAME=PATH`.
  void name_model() {
    std::string* path = nullptr;
    for (std::size_t i = 1; i < out_.size(); ++i) {
      const bool is_flag = out_[i - 1] == "-m" || out_[i - 1] == "--model";
      if (!is_flag) continue;
      if (path != nullptr) fail("one name for several models: write --model NAME=PATH for each");
      path = &out_[i];
    }
    if (path == nullptr) fail("a name without a model: write --model NAME=PATH");
    *path = str(name_, "=", *path);
  }

  void add(std::string_view flag, const std::string& value) {
    out_.emplace_back(flag);
    out_.push_back(value);
  }

  const std::vector<std::string>& in_;
  bool is_serve_;
  std::size_t at_ = 0;
  std::vector<std::string> out_;
  std::string model_;
  std::string folder_;  // of --model_path
  std::string name_;
  std::string key_type_;
  std::string value_type_;
};

}  // namespace

std::vector<std::string> translate_flags(const std::vector<std::string>& arguments) {
  const bool has_foreign = !arguments.empty() && (arguments[0] == "chat" || arguments[0] == "run" ||
                                                  arguments[0] == "serve");
  if (has_foreign) return Translator(arguments).run();
  std::vector<std::string> out = arguments;
  std::ranges::transform(out, out.begin(), with_hyphens);
  return out;
}

}  // namespace graft::cli
