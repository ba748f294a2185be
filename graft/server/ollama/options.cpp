#include "graft/server/ollama/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "graft/api/model_sampling.h"
#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/generation/structured_output.h"

namespace graft::server::ollama {
namespace {

// Ollama's defaults, for models without their own.
constexpr double kTemperature = 0.8;
constexpr double kTopP = 0.9;
constexpr std::int64_t kTopK = 40;

template <class T, class U>
bool set(T& target, const std::optional<U>& value) {
  if (value) target = static_cast<T>(*value);
  return value.has_value();
}

// Seconds of "1h30m", "45s", "1.5h" or "300"; nullopt when the text is not a duration.
std::optional<double> parse_duration(const std::string& text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  static constexpr Unit kUnits[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9},
                                    {"h", 3600},  {"m", 60},    {"s", 1}};
  const bool is_negative = text.starts_with('-');
  std::string_view rest = std::string_view(text).substr(is_negative ? 1 : 0);
  double total = 0;
  if (rest.empty()) return std::nullopt;
  while (!rest.empty()) {
    const std::size_t length = std::min(rest.find_first_not_of("0123456789."), rest.size());
    if (length == 0) return std::nullopt;
    const double number = std::strtod(std::string(rest.substr(0, length)).c_str(), nullptr);
    rest.remove_prefix(length);
    double seconds = 1;  // no unit
    for (const Unit& unit : kUnits) {
      if (!rest.starts_with(unit.name)) continue;
      seconds = unit.seconds;
      rest.remove_prefix(unit.name.size());
      break;
    }
    if (!rest.empty() && (std::isdigit(static_cast<unsigned char>(rest[0])) == 0))
      return std::nullopt;
    total += number * seconds;
  }
  return is_negative ? -total : total;
}

// Every option has an effect, is refused, or says how to run the model without a change of its
// output. Those of mirostat have none while it is off.
void check_names(const Fields& fields) {
  fields.reject_unknown({"temperature",
                         "top_k",
                         "top_p",
                         "min_p",
                         "typical_p",
                         "repeat_penalty",
                         "repeat_last_n",
                         "presence_penalty",
                         "frequency_penalty",
                         "seed",
                         "stop",
                         "num_predict",
                         "num_ctx",
                         "num_keep",
                         "tfs_z",
                         "mirostat",
                         "mirostat_tau",
                         "mirostat_eta",
                         "num_gpu",
                         "main_gpu",
                         "num_thread",
                         "num_batch",
                         "use_mmap",
                         "use_mlock",
                         "numa",
                         "low_vram",
                         "f16_kv",
                         "penalize_newline"});
}

// Rejected unless the value asks for nothing.
void reject_samplers(const Fields& fields) {
  if (fields.integer("mirostat").value_or(0) != 0) fields.fail_at("mirostat", "is not supported");
  if (fields.number("tfs_z", -1e9, 1e9).value_or(1) != 1)
    fields.fail_at("tfs_z", "is not supported");
  if (fields.integer("num_keep").value_or(0) > 0)
    fields.fail_at("num_keep", "is not supported: the start of a prompt is never dropped");
  if (!fields.boolean("penalize_newline").value_or(true))
    fields.fail_at("penalize_newline", "is not supported: penalties count every token");
}

// 0: no penalty, -1: over the whole text.
void read_repeat_window(const Fields& fields, api::SamplingParams& params) {
  const auto window = fields.integer("repeat_last_n", -1);
  if (!window || *window == -1 || params.repetition_penalty == 1) return;
  if (*window != 0) {
    fields.fail_at("repeat_last_n",
                   "is not supported: repeat_penalty counts the whole text (-1), or nothing (0)");
  }
  params.repetition_penalty = 1;
}

}  // namespace

api::SamplingParams Options::for_model(const models::ModelConfig& config) const {
  api::SamplingParams out = params;
  if (default_temperature) out.temperature = kTemperature;
  if (default_top_p) out.top_p = kTopP;
  if (default_top_k) out.top_k = kTopK;
  api::use_model_sampling(
      config, {.temperature = default_temperature, .top_p = default_top_p, .top_k = default_top_k},
      out);
  return out;
}

Options read_options(const Fields& request) {
  Options options;
  api::SamplingParams& params = options.params;
  const auto fields = request.object("options");
  if (fields) {
    options.default_temperature = !set(params.temperature, fields->number("temperature", 0, 100));
    options.default_top_p = !set(params.top_p, fields->number("top_p", 0, 1));
    options.default_top_k = !set(params.top_k, fields->integer("top_k", -1));
    set(params.min_p, fields->number("min_p", 0, 1));
    set(params.typical_p, fields->number("typical_p", 0, 1));
    set(params.repetition_penalty, fields->number("repeat_penalty", 0.01, 100));
    set(params.presence_penalty, fields->number("presence_penalty", -2, 2));
    set(params.frequency_penalty, fields->number("frequency_penalty", -2, 2));
    params.stop = fields->strings("stop", kMaxStops);
    if (const auto seed = fields->integer("seed"); seed && *seed >= 0)
      params.seed = static_cast<std::uint64_t>(*seed);
    // Zero or negative: no limit.
    if (const auto max_tokens = fields->integer("num_predict"); max_tokens && *max_tokens > 0)
      params.max_tokens = *max_tokens;
    options.num_ctx = fields->integer("num_ctx", 1);
    check_names(*fields);
    reject_samplers(*fields);
    read_repeat_window(*fields, params);
  }
  if (request.boolean("logprobs").value_or(false))
    params.logprobs = request.integer("top_logprobs", 0, 20).value_or(0);
  if (const OrderedJson* format = request.find("format"))
    params.structured_output = read_ollama_format(*format, "format");
  return options;
}

void limit_context(std::optional<std::int64_t> num_ctx,
                   std::size_t num_prompt_tokens,
                   api::SamplingParams& params) {
  if (!num_ctx) return;
  const std::int64_t max_tokens = *num_ctx - static_cast<std::int64_t>(num_prompt_tokens);
  if (max_tokens < 1) {
    throw ApiError(400,
                   str("options.num_ctx: the prompt has ", num_prompt_tokens,
                       " tokens, num_ctx is ", *num_ctx, " including the output"),
                   "options.num_ctx", "context_length_exceeded");
  }
  params.max_tokens = std::min(params.max_tokens.value_or(max_tokens), max_tokens);
}

std::optional<double> read_keep_alive(const Fields& fields) {
  const OrderedJson* value = fields.find("keep_alive");
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  const auto seconds =
      value->is_string() ? parse_duration(value->get<std::string>()) : std::nullopt;
  if (!seconds) {
    fields.fail_at("keep_alive",
                   str("expected seconds or a duration like \"5m\", got ", value->dump()));
  }
  return seconds;
}

api::Thinking read_thinking(const Fields& fields, OrderedJson& template_variables) {
  const OrderedJson* value = fields.find("think");
  if (value == nullptr) return api::Thinking::ModelDecides;
  if (value->is_boolean()) return value->get<bool>() ? api::Thinking::On : api::Thinking::Off;
  if (!value->is_string()) fields.fail_at("think", "expected true, false or a level");
  template_variables["reasoning_effort"] = *value;
  return api::Thinking::On;
}

void reject_unsupported(const Fields& fields) {
  if (!fields.string("template").value_or("").empty())
    fields.fail_at("template", "is not allowed per request, see graft serve --chat-template");
  for (const char* name : {"truncate", "shift"}) {
    if (fields.boolean(name).value_or(false)) {
      fields.fail_at(name,
                     "is not supported: a prompt that exceeds the context is an error, and output "
                     "ends where the context is full");
    }
  }
}

}  // namespace graft::server::ollama
