#include "graft/server/openai/sampling.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "graft/api/model_sampling.h"
#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/engine/speculation/speculation.h"
#include "graft/formats/created_model.h"
#include "graft/server/api_error.h"
#include "graft/server/generation/structured_output.h"
#include "graft/server/openai/samplers.h"

namespace graft::server::openai {
namespace {

constexpr std::int64_t kMaxSamples = 128;
// Every word is compared with the output after every token.
constexpr std::size_t kMaxBadWords = 1024;
constexpr std::size_t kMaxBadWordBytes = 1024;

std::vector<std::pair<api::TokenId, float>> read_logit_bias(const Fields& fields) {
  std::vector<std::pair<api::TokenId, float>> out;
  const auto biases = fields.object("logit_bias");
  if (!biases) return out;
  for (const auto& [key, value] : biases->json().items()) {
    api::TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0)
      fields.fail_at("logit_bias", str("'", key, "' is not a token id"));
    if (!value.is_number() || value.get<double>() < -100 || value.get<double>() > 100)
      fields.fail_at("logit_bias", str("a bias must be between -100 and 100, got ", value.dump()));
    out.emplace_back(id, value.get<float>());
  }
  return out;
}

std::vector<std::string> read_bad_words(const Fields& fields) {
  std::vector<std::string> words = fields.strings("bad_words", kMaxBadWords);
  for (const std::string& word : words) {
    if (word.find_first_not_of(' ') == std::string::npos)
      fields.fail_at("bad_words", "a word is empty");
    if (word.size() > kMaxBadWordBytes) {
      fields.fail_at("bad_words",
                     str("a word has ", word.size(), " bytes, max ", kMaxBadWordBytes));
    }
  }
  return words;
}

std::optional<Speculation> read_speculation(const Fields& fields) {
  const auto text = fields.string("speculate");
  if (!text) return std::nullopt;
  try {
    return engine::parse_speculation(*text);
  } catch (const Error& error) {
    fields.fail_at("speculate", error.what());
  }
}

template <class T, class U>
bool set(T& target, const std::optional<U>& value) {
  if (value) target = static_cast<T>(*value);
  return value.has_value();
}

// The parameters of a created model beside those of its configuration, where the request has none.
void set_created_defaults(const formats::CreatedModel& created,
                          const Sampling& sampling,
                          api::SamplingParams& out) {
  const Fields fields(created.parameters);
  if (sampling.default_min_p) set(out.min_p, fields.number("min_p", 0, 1));
  const bool has_window = fields.integer("repeat_last_n").value_or(-1) != 0;
  if (sampling.default_repetition_penalty && has_window)
    set(out.repetition_penalty, fields.number("repeat_penalty", 0.01, 100));
  if (sampling.default_presence_penalty)
    set(out.presence_penalty, fields.number("presence_penalty", -2, 2));
  if (sampling.default_frequency_penalty)
    set(out.frequency_penalty, fields.number("frequency_penalty", -2, 2));
  const auto seed = fields.integer("seed");
  if (!out.seed && seed && *seed >= 0) out.seed = static_cast<std::uint64_t>(*seed);
  const auto max_tokens = fields.integer("num_predict");
  if (!out.max_tokens && max_tokens && *max_tokens > 0) out.max_tokens = *max_tokens;
  if (out.stop.empty()) out.stop = fields.strings("stop", kMaxStops);
}

}  // namespace

api::SamplingParams Sampling::for_model(const models::ModelConfig& config) const {
  api::SamplingParams out = params;
  api::use_model_sampling(
      config, {.temperature = default_temperature, .top_p = default_top_p, .top_k = default_top_k},
      out);
  return out;
}

api::SamplingParams Sampling::for_model(LoadedModel& model) const {
  api::SamplingParams out = for_model(model.llm().source().config());
  if (const formats::CreatedModel* created = model.llm().source().created())
    set_created_defaults(*created, *this, out);
  for (const std::string& word : bad_words) {
    for (std::vector<api::TokenId>& tokens : bad_word_tokens(model.tokenizer(), word))
      out.bad_words.push_back(std::move(tokens));
  }
  return out;
}

std::vector<std::vector<api::TokenId>> bad_word_tokens(const tokenizer::Tokenizer& tokenizer,
                                                       const std::string& word) {
  const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
  std::vector<std::vector<api::TokenId>> out;
  for (const std::string& text : {bare, " " + bare}) {
    auto tokens = tokenizer.encode(text, {.add_special = false, .parse_special = false});
    if (!tokens.empty() && std::ranges::find(out, tokens) == out.end())
      out.push_back(std::move(tokens));
  }
  return out;
}

std::optional<std::int64_t> read_prompt_logprobs(const Fields& fields, bool is_stream) {
  const auto count = fields.integer("prompt_logprobs", 0, kMaxAlternatives);
  if (count && is_stream) fields.fail_at("prompt_logprobs", "is not supported with stream");
  return count;
}

Sampling read_sampling(const Fields& fields) {
  Sampling sampling;
  api::SamplingParams& params = sampling.params;
  sampling.default_temperature = !set(params.temperature, fields.number("temperature", 0, 2));
  sampling.default_top_p = !set(params.top_p, fields.number("top_p", 0, 1));
  sampling.default_top_k = !set(params.top_k, fields.integer("top_k", -1));
  sampling.default_min_p = !set(params.min_p, fields.number("min_p", 0, 1));
  set(params.typical_p, fields.number("typical_p", 0, 1));
  sampling.default_presence_penalty =
      !set(params.presence_penalty, fields.number("presence_penalty", -2, 2));
  sampling.default_frequency_penalty =
      !set(params.frequency_penalty, fields.number("frequency_penalty", -2, 2));
  // vLLM's name, then llama.cpp's.
  sampling.default_repetition_penalty =
      !set(params.repetition_penalty, fields.number("repetition_penalty", 0.01, 100)) &&
      !set(params.repetition_penalty, fields.number("repeat_penalty", 0.01, 100));
  read_samplers(fields, sampling);
  set(params.n, fields.integer("n", 1, kMaxSamples));
  params.speculate = read_speculation(fields);
  if (const auto seed = fields.integer("seed")) params.seed = static_cast<std::uint64_t>(*seed);
  params.stop = fields.strings("stop", kMaxStops);
  params.logit_bias = read_logit_bias(fields);
  sampling.bad_words = read_bad_words(fields);
  set(params.min_tokens, fields.integer("min_tokens", 0));
  set(params.ignore_eos, fields.boolean("ignore_eos"));
  params.stop_token_ids = fields.token_ids("stop_token_ids");
  params.allowed_token_ids = fields.token_ids("allowed_token_ids");
  set(params.include_stop_str_in_output, fields.boolean("include_stop_str_in_output"));
  set(params.skip_special_tokens, fields.boolean("skip_special_tokens"));
  if (auto structured = read_structured_output(fields)) {
    sampling.structured_field = std::move(structured->name);
    params.structured_output = std::move(structured->output);
  }
  return sampling;
}

void Sampling::set_response_format(const OrderedJson& format, const std::string& field) {
  auto output = read_response_format(format, field);
  if (!output) return;
  if (params.structured_output) {
    throw ApiError(400, str(field, ": only one is allowed, there is also ", structured_field),
                   field);
  }
  params.structured_output = std::move(output);
  structured_field = field;
}

}  // namespace graft::server::openai
