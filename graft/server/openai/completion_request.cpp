#include "graft/server/openai/completion_request.h"

#include <algorithm>
#include <limits>

#include "graft/base/error.h"
#include "graft/server/openai/chat_request.h"

namespace graft::server::openai {
namespace {

constexpr std::int64_t kDefaultMaxTokens = 16;
constexpr std::size_t kMaxPrompts = 2048;

std::vector<api::TokenId> read_tokens(const Fields& fields,
                                      const char* name,
                                      const OrderedJson& list) {
  std::vector<api::TokenId> tokens;
  for (const OrderedJson& item : list) {
    const bool is_id = item.is_number_integer() && item.get<std::int64_t>() >= 0 &&
                       item.get<std::int64_t>() <= std::numeric_limits<api::TokenId>::max();
    if (!is_id) fields.fail_at(name, str(item.dump(), " is not a token id"));
    tokens.push_back(item.get<api::TokenId>());
  }
  return tokens;
}

}  // namespace

std::vector<api::Prompt> read_prompts(const Fields& fields, const char* name) {
  const OrderedJson* value = fields.find(name);
  if (value == nullptr) fields.fail_at(name, "is missing");
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array() || value->empty())
    fields.fail_at(name, "expected a string, a list of strings, or lists of token ids");
  if (value->front().is_number()) return {read_tokens(fields, name, *value)};
  if (value->size() > kMaxPrompts)
    fields.fail_at(name, str("must have at most ", kMaxPrompts, " items, got ", value->size()));
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
  reject_unsupported(fields);
  if (!fields.string("suffix").value_or("").empty()) fields.fail_at("suffix", "is not supported");
  CompletionRequest request;
  request.model = fields.string("model").value_or("");
  request.prompts = read_prompts(fields, "prompt");
  request.sampling = read_sampling(fields);
  api::SamplingParams& params = request.sampling.params;
  if (fields.integer("best_of", 1, 128).value_or(params.n) != params.n)
    fields.fail_at("best_of", "values other than n are not supported");
  request.is_stream = fields.boolean("stream").value_or(false);
  request.include_usage = read_include_usage(fields, request.is_stream);
  request.echo = fields.boolean("echo").value_or(false);
  request.priority = fields.integer("priority").value_or(0);
  request.cache_salt = fields.string("cache_salt").value_or("");
  const std::int64_t max_tokens = fields.integer("max_tokens", 0).value_or(kDefaultMaxTokens);
  if (max_tokens == 0 && !request.echo) fields.fail_at("max_tokens", "0 requires echo: true");
  request.discard_output = max_tokens == 0;
  params.max_tokens = std::max<std::int64_t>(max_tokens, 1);
  params.logprobs = fields.integer("logprobs", 0, kMaxAlternatives);
  if (request.echo && params.logprobs) {
    if (request.is_stream) fields.fail_at("echo", "with logprobs is not supported with stream");
    params.prompt_logprobs = params.logprobs;
  }
  return request;
}

}  // namespace graft::server::openai
