#include "graft/server/openai/completion_request.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "graft/base/error.h"
#include "graft/server/openai/chat_request.h"
#include "graft/server/openai/known_fields.h"

namespace graft::server::openai {
namespace {

constexpr std::int64_t kDefaultMaxTokens = 16;
constexpr std::size_t kMaxPrompts = 2048;

api::TokenId read_token(const Fields& fields, const char* name, const OrderedJson& item) {
  const bool is_id = item.is_number_integer() && item.get<std::int64_t>() >= 0 &&
                     item.get<std::int64_t>() <= std::numeric_limits<api::TokenId>::max();
  if (!is_id) fields.fail_at(name, str(item.dump(), " is not a token id"));
  return item.get<api::TokenId>();
}

std::vector<api::TokenId> read_tokens(const Fields& fields,
                                      const char* name,
                                      const OrderedJson& list) {
  std::vector<api::TokenId> tokens;
  for (const OrderedJson& item : list)
    tokens.push_back(read_token(fields, name, item));
  return tokens;
}

void check_count(const Fields& fields, const char* name, const OrderedJson& list) {
  if (list.size() > kMaxPrompts)
    fields.fail_at(name, str("must have at most ", kMaxPrompts, " items, got ", list.size()));
}

bool is_mixed(const OrderedJson& value) {
  return value.is_array() && std::ranges::any_of(value, &OrderedJson::is_string) &&
         std::ranges::any_of(value, &OrderedJson::is_number);
}

// A list of texts and ids: every text and every run of ids is a part.
PromptParts read_parts(const Fields& fields, const char* name, const OrderedJson& list) {
  using Ids = std::vector<api::TokenId>;
  PromptParts parts;
  for (const OrderedJson& item : list) {
    if (item.is_string()) {
      parts.emplace_back(item.get<std::string>());
      continue;
    }
    if (parts.empty() || !std::holds_alternative<Ids>(parts.back())) parts.emplace_back(Ids());
    std::get<Ids>(parts.back()).push_back(read_token(fields, name, item));
  }
  return parts;
}

}  // namespace

std::vector<PromptParts> read_mixed_prompts(const Fields& fields, const char* name) {
  const OrderedJson* value = fields.find(name);
  if (value != nullptr && is_mixed(*value)) return {read_parts(fields, name, *value)};
  std::vector<PromptParts> prompts;
  if (value == nullptr || !value->is_array() || std::ranges::none_of(*value, is_mixed)) {
    for (api::Prompt& prompt : read_prompts(fields, name))
      prompts.push_back({std::move(prompt)});
    return prompts;
  }
  check_count(fields, name, *value);
  for (const OrderedJson& item : *value) {
    if (is_mixed(item)) {
      prompts.push_back(read_parts(fields, name, item));
    } else if (item.is_string()) {
      prompts.push_back({item.get<std::string>()});
    } else if (item.is_array()) {
      prompts.push_back({read_tokens(fields, name, item)});
    } else {
      fields.fail_at(name, str("expected texts or lists, got ", item.type_name()));
    }
  }
  return prompts;
}

std::vector<api::Prompt> read_prompts(const Fields& fields, const char* name) {
  const OrderedJson* value = fields.find(name);
  if (value == nullptr) fields.fail_at(name, "is missing");
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array() || value->empty())
    fields.fail_at(name, "expected a string, a list of strings, or lists of token ids");
  if (value->front().is_number()) return {read_tokens(fields, name, *value)};
  check_count(fields, name, *value);
  std::vector<api::Prompt> prompts;
  for (const OrderedJson& item : *value) {
    if (item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
    } else if (item.is_array()) {
      prompts.emplace_back(read_tokens(fields, name, item));
    } else {
      fields.fail_at(name, str("expected strings or lists of token ids, got ", item.type_name()));
    }
  }
  return prompts;
}

CompletionRequest read_completion_request(const OrderedJson& body) {
  const Fields fields(body);
  check_known(fields, {"model", "lora", "prompt", "suffix", "add_special_tokens", "best_of",
                       "stream", "stream_options", "echo", "priority", "cache_salt", "max_tokens",
                       "logprobs", "prompt_logprobs"});
  CompletionRequest request;
  request.model = read_model(fields);
  request.prompts = read_mixed_prompts(fields, "prompt");
  request.suffix = fields.string("suffix").value_or("");
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  request.sampling = read_sampling(fields);
  api::SamplingParams& params = request.sampling.params;
  if (fields.integer("best_of", 1, 128).value_or(params.n) != params.n)
    fields.fail_at("best_of", "values other than n are not supported");
  request.is_stream = fields.boolean("stream").value_or(false);
  request.include_usage = read_include_usage(fields, request.is_stream);
  request.echo = fields.boolean("echo").value_or(false);
  if (!request.suffix.empty()) {
    if (request.echo) fields.fail_at("suffix", "is not supported with echo");
    for (const PromptParts& parts : request.prompts) {
      if (parts.size() != 1 || !std::holds_alternative<std::string>(parts.front()))
        fields.fail_at("suffix", "needs prompts that are text");
    }
  }
  request.priority = fields.integer("priority").value_or(0);
  request.cache_salt = fields.string("cache_salt").value_or("");
  const std::int64_t max_tokens = fields.integer("max_tokens", 0).value_or(kDefaultMaxTokens);
  if (max_tokens == 0 && !request.echo) fields.fail_at("max_tokens", "0 requires echo: true");
  request.discard_output = max_tokens == 0;
  params.max_tokens = std::max<std::int64_t>(max_tokens, 1);
  params.logprobs = fields.integer("logprobs", 0, kMaxAlternatives);
  request.prompt_logprobs = read_prompt_logprobs(fields, request.is_stream);
  params.prompt_logprobs = request.prompt_logprobs;
  if (request.echo && params.logprobs) {
    if (request.is_stream) fields.fail_at("echo", "with logprobs is not supported with stream");
    params.prompt_logprobs = std::max(*params.logprobs, request.prompt_logprobs.value_or(0));
  }
  return request;
}

}  // namespace graft::server::openai
