#include "graft/server/ollama/response.h"

#include <cmath>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/wire.h"
#include "graft/server/time_text.h"

namespace graft::server::ollama {
namespace {

std::int64_t nanoseconds(double seconds) {
  return static_cast<std::int64_t>(std::llround(seconds * 1e9));
}

// Unlike OpenAI, Ollama sends the arguments as an object, not as a string.
OrderedJson calls_json(const std::vector<ToolCall>& calls) {
  OrderedJson list = OrderedJson::array();
  for (const ToolCall& call : calls) {
    list.push_back({{"id", call.id},
                    {"function",
                     {{"index", call.index},
                      {"name", call.name},
                      {"arguments", parse_ordered_json(call.arguments, "call")}}}});
  }
  return list;
}

}  // namespace

OllamaResponseWriter::OllamaResponseWriter(ResponseOptions options)
    : options_(std::move(options)), parser_(options_.format, true) {}

OrderedJson OllamaResponseWriter::line(const OutputDelta& delta, bool is_done) const {
  OrderedJson json = {{"model", options_.model}, {"created_at", rfc3339(options_.clock())}};
  if (options_.is_chat) {
    OrderedJson message = {{"role", "assistant"}, {"content", delta.content}};
    if (!delta.reasoning.empty()) message["thinking"] = delta.reasoning;
    if (!delta.calls.empty()) message["tool_calls"] = calls_json(delta.calls);
    json["message"] = std::move(message);
  } else {
    json["response"] = delta.content;
    if (!delta.reasoning.empty()) json["thinking"] = delta.reasoning;
  }
  json["done"] = is_done;
  return json;
}

OrderedJson OllamaResponseWriter::logprobs_of(const api::Update& update) const {
  OrderedJson list = OrderedJson::array();
  for (const api::TokenLogprobs& token : update.logprobs) {
    OrderedJson entry = openai::token_json(*options_.tokenizer, token.token, token.logprob);
    for (const auto& [id, logprob] : token.top)
      entry["top_logprobs"].push_back(openai::token_json(*options_.tokenizer, id, logprob));
    list.push_back(std::move(entry));
  }
  return list;
}

std::string OllamaResponseWriter::append(std::size_t /*prompt*/, const api::Update& update) {
  OutputDelta delta = parser_.feed(update.text);
  if (update.finish) {
    delta.append(parser_.finish());
    done_reason_ = to_string(update.finish->reason);
  }
  if (!options_.is_chat)
    options_.context.insert(options_.context.end(), update.tokens.begin(), update.tokens.end());
  OrderedJson logprobs = options_.wants_logprobs ? logprobs_of(update) : OrderedJson::array();
  if (options_.is_stream) {
    if (delta.empty() && logprobs.empty()) return {};
    OrderedJson json = line(delta, false);
    if (!logprobs.empty()) json["logprobs"] = std::move(logprobs);
    return ordered_text(json) + '\n';
  }
  all_.append(std::move(delta));
  for (const OrderedJson& entry : logprobs)
    append_item(logprobs_, ordered_text(entry));
  return {};
}

std::string OllamaResponseWriter::finish(const Usage& usage) {
  OrderedJson json = line(all_, true);
  json["done_reason"] = done_reason_;
  if (!options_.is_chat) json["context"] = options_.context;
  json["total_duration"] = nanoseconds(usage.total_seconds + options_.load_seconds);
  json["load_duration"] = nanoseconds(options_.load_seconds);
  json["prompt_eval_count"] = usage.num_prompt;
  json["prompt_eval_duration"] = nanoseconds(usage.prefill_seconds);
  json["eval_count"] = usage.num_output;
  json["eval_duration"] = nanoseconds(usage.decode_seconds);
  JsonObjectText text(json);
  if (!logprobs_.empty()) text.add("logprobs", str("[", logprobs_, "]"));
  return text.take() + (options_.is_stream ? "\n" : "");
}

std::size_t OllamaResponseWriter::num_bytes() const {
  std::size_t num_bytes = all_.content.size() + all_.reasoning.size() + logprobs_.size() +
                          options_.context.size() * sizeof(api::TokenId);
  for (const ToolCall& call : all_.calls)
    num_bytes += call.arguments.size();
  return num_bytes;
}

std::string OllamaResponseWriter::error(const std::string& message) {
  return json_text({{"error", message}}) + '\n';
}

std::string empty_response(const std::string& model, bool is_chat, const char* reason, double now) {
  OrderedJson json = {{"model", model}, {"created_at", rfc3339(now)}};
  if (is_chat) {
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    json["response"] = "";
  }
  json["done"] = true;
  json["done_reason"] = reason;
  return ordered_text(json);
}

}  // namespace graft::server::ollama
