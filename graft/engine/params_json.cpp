#include "graft/engine/params_json.h"

#include <optional>
#include <string>
#include <vector>

#include "graft/base/error.h"
#include "graft/engine/speculation/speculation.h"

namespace graft::engine {
namespace {

// Calls visit(name, field) for every parameter; used for both reading and writing.
template <class Params, class Visitor>
void each_field(Params& params, const Visitor& visit) {
  visit("n", params.n);
  visit("temperature", params.temperature);
  visit("top_k", params.top_k);
  visit("top_p", params.top_p);
  visit("min_p", params.min_p);
  visit("typical_p", params.typical_p);
  visit("steps", params.steps);
  visit("repetition_penalty", params.repetition_penalty);
  visit("presence_penalty", params.presence_penalty);
  visit("frequency_penalty", params.frequency_penalty);
  visit("seed", params.seed);
  visit("logit_bias", params.logit_bias);
  visit("allowed_token_ids", params.allowed_token_ids);
  visit("bad_words", params.bad_words);
  visit("structured_output", params.structured_output);
  visit("max_tokens", params.max_tokens);
  visit("min_tokens", params.min_tokens);
  visit("ignore_eos", params.ignore_eos);
  visit("stop_token_ids", params.stop_token_ids);
  visit("stop", params.stop);
  visit("min_indent", params.min_indent);
  visit("max_line_ms", params.max_line_ms);
  visit("include_stop_str_in_output", params.include_stop_str_in_output);
  visit("skip_special_tokens", params.skip_special_tokens);
  visit("logprobs", params.logprobs);
  visit("prompt_logprobs", params.prompt_logprobs);
  visit("speculate", params.speculate);
}

Json value_of(const StructuredOutput& output) {
  return {{"kind", static_cast<int>(output.kind)},
          {"text", output.text},
          {"triggers", output.triggers}};
}

StructuredOutput structured_output_of(const Json& json) {
  const int kind = json.at("kind").get<int>();
  if (kind < 0 || kind > static_cast<int>(StructuredOutput::Kind::Grammar))
    throw Error("unknown kind of structured output");
  return {.kind = static_cast<StructuredOutput::Kind>(kind),
          .text = json.at("text").get<std::string>(),
          .triggers = json.at("triggers").get<std::vector<std::string>>()};
}

Json value_of(const Speculation& speculation) {
  return to_string(speculation);
}

template <class T>
Json value_of(const T& field) {
  return field;
}
template <class T>
Json value_of(const std::optional<T>& field) {
  return field ? Json(value_of(*field)) : Json(nullptr);
}

template <class T>
void read_value(const Json& json, T& field) {
  json.get_to(field);
}
void read_value(const Json& json, std::optional<StructuredOutput>& field) {
  if (!json.is_null()) field = structured_output_of(json);
}
void read_value(const Json& json, std::optional<std::vector<SamplingStep>>& field) {
  if (json.is_null()) return field.reset();
  field.emplace();
  for (const int step : json.get<std::vector<int>>()) {
    if (step < 0 || step > static_cast<int>(SamplingStep::Infill))
      throw Error("unknown step of sampling");
    field->push_back(static_cast<SamplingStep>(step));
  }
}
void read_value(const Json& json, std::optional<Speculation>& field) {
  if (!json.is_null()) field = parse_speculation(json.get<std::string>());
}
template <class T>
void read_value(const Json& json, std::optional<T>& field) {
  if (json.is_null()) {
    field.reset();
  } else {
    field = json.get<T>();
  }
}

}  // namespace

Json to_json(const SamplingParams& params) {
  Json json = Json::object();
  each_field(params, [&](const char* name, const auto& field) { json[name] = value_of(field); });
  return json;
}

SamplingParams params_from_json(const Json& json) {
  SamplingParams params;
  each_field(params, [&](const char* name, auto& field) { read_value(json.at(name), field); });
  return params;
}

}  // namespace graft::engine
