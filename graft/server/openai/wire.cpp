#include "graft/server/openai/wire.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/json_text.h"
#include "graft/server/time_text.h"
#include "graft/version.h"

namespace graft::server::openai {

std::string new_id(std::string_view prefix) {
  thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("{}{:016x}{:016x}", prefix, random(), random());
}

Identity new_identity(const std::string& prefix, const std::string& model) {
  return {
      .id = new_id(prefix + "-"), .created = static_cast<std::int64_t>(unix_now()), .model = model};
}

std::string sse(const OrderedJson& json) {
  return "data: " + ordered_text(json) + "\n\n";
}

http::StreamHead sse_head() {
  return {.content_type = "text/event-stream; charset=utf-8", .keep_alive = ": keep-alive\n\n"};
}

std::string system_fingerprint() {
  return str("fp_graft_", GRAFT_VERSION);
}

std::string input_tokens_body(std::size_t count) {
  return ordered_text({{"object", "response.input_tokens"}, {"input_tokens", count}});
}

OrderedJson usage_json(const Usage& usage, std::int64_t num_reasoning) {
  OrderedJson output = {{"reasoning_tokens", num_reasoning}};
  if (usage.num_draft_tokens > 0) {
    output["accepted_prediction_tokens"] = usage.num_accepted_tokens;
    output["rejected_prediction_tokens"] = usage.num_draft_tokens - usage.num_accepted_tokens;
  }
  return {{"prompt_tokens", usage.num_prompt},
          {"completion_tokens", usage.num_output},
          {"total_tokens", usage.num_prompt + usage.num_output},
          {"prompt_tokens_details", {{"cached_tokens", usage.num_cached}}},
          {"completion_tokens_details", output}};
}

OrderedJson call_json(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

std::string finish_text(const api::Finish& finish) {
  return std::string(to_string(finish.reason));
}

std::string sse_error(const std::string& message) {
  return "data: " + error_body({500, message}, {}) + "\n\n";
}

std::string token_text(const tokenizer::Tokenizer& tokenizer, api::TokenId token) {
  return std::string(tokenizer.is_special(token) ? tokenizer.token(token) : tokenizer.bytes(token));
}

OrderedJson token_json(const tokenizer::Tokenizer& tokenizer, api::TokenId token, float logprob) {
  const std::string text = token_text(tokenizer, token);
  OrderedJson bytes = OrderedJson::array();
  for (const char byte : text)
    bytes.push_back(static_cast<unsigned char>(byte));
  // JSON has no infinity; -9999 is OpenAI's minimum.
  return {{"token", text}, {"logprob", std::max(logprob, -9999.0F)}, {"bytes", bytes}};
}

std::string prompt_logprobs_text(const tokenizer::Tokenizer& tokenizer,
                                 const std::vector<api::TokenLogprobs>& tokens,
                                 std::int64_t num_top) {
  std::string list = "null";
  for (const api::TokenLogprobs& token : tokens) {
    OrderedJson entry = OrderedJson::object();
    const auto add = [&](api::TokenId id, float logprob, std::int64_t rank) {
      entry[std::to_string(id)] = {{"logprob", std::max(logprob, -9999.0F)},
                                   {"rank", rank},
                                   {"decoded_token", token_text(tokenizer, id)}};
    };
    add(token.token, token.logprob, token.rank);
    const auto count = std::min(static_cast<std::size_t>(num_top), token.top.size());
    for (std::size_t i = 0; i < count; ++i)
      add(token.top[i].first, token.top[i].second, static_cast<std::int64_t>(i) + 1);
    append_item(list, ordered_text(entry));
  }
  return str("[", list, "]");
}

}  // namespace graft::server::openai
