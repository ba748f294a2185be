#include "graft/cli/options/foreign/foreign_flags.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/json.h"
#include "graft/cli/options/foreign/flag_row.h"

namespace graft::cli {
namespace {

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

// vLLM's --speculative-config in the form of --speculate.
std::string speculation_text(std::string_view flag, const std::string& value) {
  const Json config = Json::parse(value, nullptr, false);
  if (!config.is_object()) fail(flag, ": expected a JSON object, got ", value);
  if (config.value("method", Json()) != "ngram") fail(flag, ": ", kNoDraft);
  const auto count = [&](const char* name, int otherwise) {
    const Json number = config.value(name, Json(otherwise));
    if (!number.is_number_integer()) fail(flag, ": ", name, " is ", number.dump());
    return number.dump();
  };
  const char* least =
      config.contains("prompt_lookup_min") ? "prompt_lookup_min" : "prompt_lookup_max";
  return str("ngram:", count(least, 5), ",", count("num_speculative_tokens", 5));
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

// Vendors write 32k for 32000 and 32K for 32768 tokens.
std::string plain_count(std::string_view flag, const std::string& value) {
  struct Unit {
    char letter;
    std::int64_t factor;
  };
  for (const Unit unit :
       {Unit{'k', 1000}, Unit{'K', 1 << 10}, Unit{'m', 1'000'000}, Unit{'M', 1 << 20}}) {
    if (value.size() < 2 || value.size() > 8 || value.back() != unit.letter) continue;
    return str(flag_number(flag, value.substr(0, value.size() - 1)) * unit.factor);
  }
  return value;  // the option checks it
}

// llama.cpp's names of devices; those of graft stay.
std::string device_name(const std::string& value) {
  constexpr std::string_view kCuda = "CUDA";
  if (value == "none") return "cpu";
  return value.starts_with(kCuda) ? "cuda:" + value.substr(kCuda.size()) : value;
}

std::string cache_type(const std::string& value) {
  if (value == "bfloat16") return "bf16";
  if (value == "float16" || value == "half") return "f16";
  return value == "fp8_e4m3" ? "fp8" : value;
}

bool applies(Scope scope, std::string_view command) {
  switch (scope) {
    case Scope::All:
      return true;
    case Scope::Serve:
      return command == "serve";
    case Scope::Talk:
      return command != "serve";
    case Scope::Run:
      return command == "run";
    case Scope::Chat:
      return command == "chat";
  }
  return false;
}

bool matches(std::string_view from, std::string_view name) {
  if (!from.ends_with('*')) return from == name;
  from.remove_suffix(1);
  return name.starts_with(from);
}

// Null: no flag of another program.
const FlagRow* find_row(std::string_view name, std::string_view command) {
  for (const std::span<const FlagRow> rows :
       {ktransformers_flags(), vllm_flags(), llamacpp_flags()}) {
    for (const FlagRow& row : rows)
      if (matches(row.from, name) && applies(row.scope, command)) return &row;
  }
  return nullptr;
}

class Translator {
 public:
  explicit Translator(const std::vector<std::string>& arguments)
      : in_(arguments), command_(arguments[0]), is_serve_(command_ == "serve") {}

  std::vector<std::string> run() {
    out_.push_back(in_[at_++]);
    // vLLM's `serve MODEL`.
    if (is_serve_ && at_ < in_.size() && !in_[at_].starts_with('-')) add("--model", in_[at_++]);
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
    const FlagRow* row = name.starts_with('-') ? find_row(name, command_) : nullptr;
    if (row == nullptr) {
      out_.push_back(argument);
      return;
    }
    std::optional<std::string> value;
    if (equals < argument.size()) {
      value = argument.substr(equals + 1);
    } else if (at_ < in_.size() && takes_next(*row)) {
      value = in_[at_++];
    }
    translate(*row, name, value);
  }

  // The next word may be a prompt after a flag that needs no value.
  bool takes_next(const FlagRow& row) const {
    const std::string& next = in_[at_];
    const bool is_number = next.size() > 1 && next[0] == '-' && next[1] >= '0' && next[1] <= '9';
    if (next.starts_with("-") && !is_number) return false;
    const bool is_boolean =
        row.meaning == Meaning::Switch || (row.meaning == Meaning::Only && row.to == kTrue);
    if (!is_boolean) return true;
    return next == "true" || next == "True" || next == "on" || next == "off" || next == "auto" ||
           next == "false" || next == "False" || next == "0" || next == "1";
  }

  void translate(const FlagRow& row,
                 const std::string& name,
                 const std::optional<std::string>& value) {
    if (row.meaning == Meaning::Refused) fail(name, ": ", row.to);
    // A boolean flag without a value means true.
    const auto is_true = [&] { return !value || truth_of(row.from, *value); };
    switch (row.meaning) {
      case Meaning::Switch:
        if (is_true()) out_.emplace_back(row.to);
        return;
      case Meaning::CudaGraph:
        if (!is_true()) out_.emplace_back(row.to);
        return;
      case Meaning::Mode:
        if (value == "long_context") fail(row.from, " long_context: ", kNoLongContext);
        return check_is_one_of(row, value);
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
      case Meaning::Count:
        if (value != "auto" && value != "-1") add(row.to, plain_count(row.from, value));
        return;
      case Meaning::Prompt:
        out_.push_back(value);
        return;
      case Meaning::DeviceName:
        return add(row.to, device_name(value));
      case Meaning::CacheType:
        return add(row.to, cache_type(value));
      case Meaning::Origins:
        return add_origins(row, value);
      case Meaning::Speculation:
        return add(row.to, speculation_text(row.from, value));
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

  // ["https://a.example"], or one origin as text.
  void add_origins(const FlagRow& row, const std::string& value) {
    const Json list = Json::parse(value, nullptr, false);
    if (!list.is_array()) return add(row.to, value);
    for (const Json& origin : list) {
      if (!origin.is_string()) fail(row.from, ": expected a list of texts, got ", value);
      add(row.to, origin.get<std::string>());
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

  // KTransformers takes the tokenizer, the chat template and generation_config.json from
  // --model_path, the weights from --gguf_path.
  void choose_model(const FlagRow& row, const std::string& value) {
    if (row.from != "--model-path") {
      model_ = value;
      return;
    }
    folder_ = value;
  }

  void add_model() {
    if (!model_.empty() && !folder_.empty()) add_folder();
    const std::string model = model_.empty() ? folder_ : model_;
    if (!model.empty()) add("--model", model);
    if (name_.empty()) return;
    if (!is_serve_) fail("a name to serve the model under: only `graft serve` has one");
    name_model();
  }

  // A folder may have only a chat template, and a name of the hub no folder: the tokenizer is then
  // that of the GGUF file.
  void add_folder() {
    const std::filesystem::path folder(folder_);
    std::error_code error;
    if (std::filesystem::exists(folder / "tokenizer.json", error))
      return add("--tokenizer", folder.string());
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
  const std::string& command_;
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
