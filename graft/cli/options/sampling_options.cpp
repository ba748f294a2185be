#include "graft/cli/options/sampling_options.h"

#include <limits>

#include "graft/api/model_sampling.h"
#include "graft/cli/text_file.h"

namespace graft::cli {

void SamplingOptions::add_to(Command& command) {
  command
      .add_option("--temperature", temperature,
                  "Sampling temperature; 0 is greedy (default: the model's, else 0.6)")
      ->check(Range(0.0, 100.0))
      ->option_text("X");
  command
      .add_option(
          "--top-p", top_p,
          "Nucleus sampling: smallest token set with this probability (default: the model's, "
          "else 0.95)")
      ->check(Range(0.0, 1.0))
      ->option_text("X");
  command
      .add_option("--top-k", top_k,
                  "Sample from the K most likely tokens (default: the model's, else off)")
      ->check(Range(std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()))
      ->option_text("K");
  command
      .add_option("--min-p", min_p,
                  "Min probability relative to the most likely token (default: off)")
      ->check(Range(0.0, 1.0))
      ->option_text("X");
  command
      .add_option("--repetition-penalty", repetition_penalty,
                  "Divides the logits of tokens of prompt and answer (default: 1, off)")
      ->check(Range(0.01, 100.0))
      ->option_text("X");
  command
      .add_option("--presence-penalty", presence_penalty,
                  "Subtracted from the logits of tokens that the answer has (default: 0)")
      ->check(Range(-2.0, 2.0))
      ->option_text("X");
  command
      .add_option("--frequency-penalty", frequency_penalty,
                  "Subtracted for each time that the answer has the token (default: 0)")
      ->check(Range(-2.0, 2.0))
      ->option_text("X");
  command.add_option("--seed", seed, "Random seed; the same seed gives the same text")
      ->option_text("N");
  command.add_option("-n,--max-new-tokens", max_new_tokens, "Max tokens of an answer")
      ->check(Range(std::int64_t{1}, std::int64_t{1} << 32U))
      ->option_text("N");
  command.add_option("--think", think, "Turn reasoning on or off (default: the model decides)")
      ->option_text("on|off")
      ->expected(0, 1)
      ->default_str("on")
      ->check(IsMember({"on", "off"}));
  command
      .add_option("--chat-template", chat_template,
                  "Chat template file or built-in name, e.g. chatml (default: the model's)")
      ->option_text("FILE|NAME");
  command.add_option("--system", system, "System prompt")->option_text("TEXT");
}

void SamplingOptions::add_structured_to(Command& command) {
  command
      .add_option("--json-schema", json_schema, "The answer matches the JSON schema in this file")
      ->option_text("FILE");
  command.add_option("--grammar", grammar, "The answer matches the GBNF grammar in this file")
      ->option_text("FILE")
      ->excludes("--json-schema");
  command.add_option("--regex", regex, "The answer matches this regular expression")
      ->option_text("PATTERN")
      ->excludes("--json-schema")
      ->excludes("--grammar");
}

api::SamplingParams SamplingOptions::params(const models::ModelConfig& config) const {
  api::SamplingParams params;
  params.temperature = temperature.value_or(kTemperature);
  params.top_p = top_p.value_or(kTopP);
  params.top_k = top_k.value_or(params.top_k);
  api::use_model_sampling(config, {.temperature = !temperature, .top_p = !top_p, .top_k = !top_k},
                          params);
  params.min_p = min_p.value_or(params.min_p);
  params.repetition_penalty = repetition_penalty.value_or(params.repetition_penalty);
  params.presence_penalty = presence_penalty.value_or(params.presence_penalty);
  params.frequency_penalty = frequency_penalty.value_or(params.frequency_penalty);
  params.seed = seed;
  params.max_tokens = max_new_tokens;
  using Kind = StructuredOutput::Kind;
  if (!json_schema.empty())
    params.structured_output = {.kind = Kind::JsonSchema, .text = read_text_file(json_schema)};
  if (!grammar.empty())
    params.structured_output = {.kind = Kind::Grammar, .text = read_text_file(grammar)};
  if (!regex.empty()) params.structured_output = {.kind = Kind::Regex, .text = regex};
  return params;
}

OrderedJson SamplingOptions::request_fields() const {
  OrderedJson fields = OrderedJson::object();
  const auto add = [&](const char* name, const auto& value) {
    if (value) fields[name] = *value;
  };
  add("temperature", temperature);
  add("top_p", top_p);
  add("top_k", top_k);
  add("min_p", min_p);
  add("repetition_penalty", repetition_penalty);
  add("presence_penalty", presence_penalty);
  add("frequency_penalty", frequency_penalty);
  add("seed", seed);
  add("max_tokens", max_new_tokens);
  if (!think.empty()) fields["enable_thinking"] = think == "on";
  OrderedJson structured = OrderedJson::object();
  if (!json_schema.empty()) structured["json"] = read_text_file(json_schema);
  if (!grammar.empty()) structured["grammar"] = read_text_file(grammar);
  if (!regex.empty()) structured["regex"] = regex;
  if (!structured.empty()) fields["structured_outputs"] = structured;
  return fields;
}

api::Thinking SamplingOptions::thinking() const {
  if (think.empty()) return api::Thinking::ModelDecides;
  return think == "on" ? api::Thinking::On : api::Thinking::Off;
}

void ContextOptions::add_to(Command& command) {
  command
      .add_option("--max-model-len", max_model_len,
                  "Max tokens of the conversation (default: the model's context length)")
      ->check(Range(std::int64_t{1}, std::int64_t{1} << 32U))
      ->option_text("N");
  command
      .add_option("--chunk-prefill", chunk_prefill, "Max prompt tokens per step (default: 2048)")
      ->check(Range(std::int64_t{1}, std::int64_t{1} << 24U))
      ->option_text("N");
  tiers.add_to(command);
  speculate.add_to(command);
}

void ContextOptions::apply_to(api::EngineConfig& config) const {
  config.max_model_len = max_model_len;
  config.chunk_prefill_size = chunk_prefill;
  tiers.apply_to(config);
  speculate.apply_to(config);
}

}  // namespace graft::cli
