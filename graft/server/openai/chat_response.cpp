#include "graft/server/openai/chat_response.h"

#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/json_text.h"

namespace graft::server::openai {
namespace {

// The id and the name are in the first piece of a call only.
OrderedJson piece_json(const ToolCall& piece) {
  OrderedJson json = {{"index", piece.index}};
  if (piece.id.empty()) {
    json["function"] = {{"arguments", piece.arguments}};
  } else {
    json.update(call_json(piece));
  }
  return json;
}

}  // namespace

ChatResponseWriter::ChatResponseWriter(Identity identity, const ChatResponseOptions& options)
    : identity_(std::move(identity)), options_(options) {
  for (std::int64_t i = 0; i < options.num_choices; ++i)
    choices_.push_back({.parser = OutputParser(options.format, !options.is_stream)});
}

OrderedJson ChatResponseWriter::head(const char* object) const {
  return {{"id", identity_.id},
          {"object", object},
          {"created", identity_.created},
          {"model", identity_.model},
          {"system_fingerprint", system_fingerprint()}};
}

std::string ChatResponseWriter::chunk(std::size_t index,
                                      const OrderedJson& delta,
                                      const OrderedJson& logprobs,
                                      const OrderedJson& finish_reason) const {
  OrderedJson json = head("chat.completion.chunk");
  json["choices"] = OrderedJson::array({{{"index", index},
                                         {"delta", delta},
                                         {"logprobs", logprobs},
                                         {"finish_reason", finish_reason}}});
  return sse(json);
}

std::string ChatResponseWriter::begin() {
  std::string text;
  for (std::size_t i = 0; i < choices_.size(); ++i)
    text += chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
  return text;
}

OrderedJson ChatResponseWriter::logprobs_of(const api::Update& update) const {
  OrderedJson list = OrderedJson::array();
  for (const api::TokenLogprobs& token : update.logprobs) {
    OrderedJson entry = token_json(*options_.tokenizer, token.token, token.logprob);
    entry["top_logprobs"] = OrderedJson::array();
    for (const auto& [id, logprob] : token.top)
      entry["top_logprobs"].push_back(token_json(*options_.tokenizer, id, logprob));
    list.push_back(std::move(entry));
  }
  return list;
}

// One event per kind of content in the delta; the first event carries the logprobs.
std::string ChatResponseWriter::deltas(std::size_t index,
                                       const OutputDelta& delta,
                                       const OrderedJson& logprobs) {
  std::string text;
  OrderedJson pending = logprobs.empty() ? OrderedJson(nullptr)
                                         : OrderedJson{{"content", logprobs}, {"refusal", nullptr}};
  const auto add = [&](const OrderedJson& json) {
    text += chunk(index, json, std::exchange(pending, nullptr), nullptr);
  };
  if (!delta.reasoning.empty())
    add({{"reasoning_content", delta.reasoning}, {"reasoning", delta.reasoning}});
  if (!delta.content.empty()) add({{"content", delta.content}});
  for (const ToolCall& piece : delta.calls)
    add({{"tool_calls", OrderedJson::array({piece_json(piece)})}});
  if (!pending.is_null()) add({{"content", ""}});
  return text;
}

void ChatResponseWriter::keep(Choice& choice, OutputDelta delta) {
  if (options_.is_stream) return;
  num_bytes_ += delta.content.size() + delta.reasoning.size();
  for (const ToolCall& piece : delta.calls)
    num_bytes_ += piece.id.size() + piece.name.size() + piece.arguments.size();
  join_calls(choice.calls, std::move(delta.calls));
  choice.content += delta.content;
  choice.reasoning += delta.reasoning;
}

std::string ChatResponseWriter::append(std::size_t /*prompt*/, const api::Update& update) {
  const auto index = static_cast<std::size_t>(update.id.sample);
  Choice& choice = choices_[index];
  const bool was_thinking = choice.parser.is_thinking();
  OutputDelta delta = choice.parser.feed(update.text);
  if (was_thinking || choice.parser.is_thinking())
    num_reasoning_ += static_cast<std::int64_t>(update.tokens.size());
  if (update.finish) {
    delta.append(choice.parser.finish());
    choice.finish_reason = finish_text(*update.finish);
    if (choice.parser.has_calls() && update.finish->reason == api::FinishReason::Stop)
      choice.finish_reason = "tool_calls";
  }
  if (update.finish && options_.prompt_logprobs && prompt_logprobs_.empty()) {
    prompt_logprobs_ = prompt_logprobs_text(*options_.tokenizer, update.prompt_logprobs,
                                            *options_.prompt_logprobs);
    num_bytes_ += prompt_logprobs_.size();
  }
  OrderedJson logprobs = options_.wants_logprobs ? logprobs_of(update) : OrderedJson::array();
  std::string text;
  if (options_.is_stream) {
    text = deltas(index, delta, logprobs);
    if (update.finish) text += chunk(index, OrderedJson::object(), nullptr, choice.finish_reason);
  } else {
    num_bytes_ -= choice.logprobs.size();
    for (const OrderedJson& entry : logprobs)
      append_item(choice.logprobs, ordered_text(entry));
    num_bytes_ += choice.logprobs.size();
  }
  keep(choice, std::move(delta));
  return text;
}

OrderedJson ChatResponseWriter::message_of(const Choice& choice) {
  OrderedJson message = {{"role", "assistant"}, {"content", choice.content}, {"refusal", nullptr}};
  if (!choice.reasoning.empty()) {
    message["reasoning_content"] = choice.reasoning;
    message["reasoning"] = choice.reasoning;
  }
  if (!choice.calls.empty()) {
    if (choice.content.empty()) message["content"] = nullptr;
    for (const ToolCall& call : choice.calls)
      message["tool_calls"].push_back(call_json(call));
  }
  return message;
}

std::string ChatResponseWriter::finish(const Usage& usage) {
  const OrderedJson counts = usage_json(usage, num_reasoning_);
  if (options_.is_stream) {
    std::string text;
    if (options_.include_usage) {
      OrderedJson json = head("chat.completion.chunk");
      json["choices"] = OrderedJson::array();
      json["usage"] = counts;
      text = sse(json);
    }
    return text + std::string(kSseEnd);
  }
  std::string choices;
  for (std::size_t i = 0; !choices_.empty(); ++i) {
    append_item(choices, choice_text(i, choices_.front()));
    choices_.pop_front();
  }
  JsonObjectText json(head("chat.completion"));
  json.add("choices", str("[", std::exchange(choices, {}), "]"));
  json.add("usage", ordered_text(counts));
  if (!prompt_logprobs_.empty()) json.add("prompt_logprobs", prompt_logprobs_);
  return json.take();
}

std::string ChatResponseWriter::choice_text(std::size_t index, const Choice& choice) const {
  JsonObjectText json({{"index", index}, {"message", message_of(choice)}});
  json.add("logprobs", options_.wants_logprobs
                           ? str(R"({"content":[)", choice.logprobs, R"(],"refusal":null})")
                           : "null");
  json.add("finish_reason", ordered_text(choice.finish_reason));
  return json.take();
}

}  // namespace graft::server::openai
