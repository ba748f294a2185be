#include "graft/server/openai/responses/response.h"

#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/responses/items.h"

namespace graft::server::openai::responses {
namespace {

OrderedJson response_usage(const Usage& usage, std::int64_t num_reasoning) {
  return {{"input_tokens", usage.num_prompt},
          {"input_tokens_details", {{"cached_tokens", usage.num_cached}}},
          {"output_tokens", usage.num_output},
          {"output_tokens_details", {{"reasoning_tokens", num_reasoning}}},
          {"total_tokens", usage.num_prompt + usage.num_output}};
}

}  // namespace

ResponsesWriter::ResponsesWriter(Identity identity, ResponseOptions options)
    : identity_(std::move(identity)),
      options_(std::move(options)),
      parser_(options_.format, !options_.is_stream) {}

std::string ResponsesWriter::event(const char* type, const OrderedJson& fields) {
  if (!options_.is_stream) return {};
  OrderedJson json = {{"type", type}, {"sequence_number", sequence_number_++}};
  json.update(fields);
  return str("event: ", type, "\ndata: ", ordered_text(json), "\n\n");
}

std::string ResponsesWriter::item_event(const char* type, const OrderedJson& fields) {
  if (!options_.is_stream) return {};
  const Item& item = items_.back();
  OrderedJson json = {{"item_id", item.id}, {"output_index", items_.size() - 1}};
  if (item.kind != Kind::Call) json[is_summary(item) ? "summary_index" : "content_index"] = 0;
  json.update(fields);
  return event(type, json);
}

bool ResponsesWriter::is_summary(const Item& item) const {
  return item.kind == Kind::Reasoning && options_.wants_summary;
}

QualifiedName ResponsesWriter::function_of(const ToolCall& call) const {
  const auto found = options_.namespaces.find(call.name);
  return found == options_.namespaces.end() ? QualifiedName{.name = call.name} : found->second;
}

OrderedJson ResponsesWriter::part_json(const Item& item, bool is_empty) const {
  const std::string text = is_empty ? std::string() : item.text;
  if (item.kind == Kind::Reasoning)
    return {{"type", options_.wants_summary ? "summary_text" : "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", OrderedJson::array()},
          {"logprobs", is_empty ? OrderedJson::array() : item.logprobs}};
}

OrderedJson ResponsesWriter::item_json(const Item& item) const {
  const bool is_new = std::string_view(item.status) == "in_progress";
  OrderedJson json = {{"id", item.id}};
  OrderedJson parts = OrderedJson::array();
  if (!is_new && item.kind != Kind::Call) parts.push_back(part_json(item, false));
  switch (item.kind) {
    case Kind::Reasoning:
      json["type"] = "reasoning";
      json["summary"] = options_.wants_summary ? parts : OrderedJson::array();
      json["content"] = options_.wants_summary ? OrderedJson::array() : parts;
      if (options_.wants_encrypted && !is_new)
        json["encrypted_content"] = str(kReasoningMark, item.text);
      break;
    case Kind::Message:
      json["type"] = "message";
      json["role"] = "assistant";
      json["content"] = std::move(parts);
      break;
    case Kind::Call:
      json["type"] = "function_call";
      json["call_id"] = item.call_id;
      if (!item.function.name_space.empty()) json["namespace"] = item.function.name_space;
      json["name"] = item.function.name;
      json["arguments"] = item.text;
      break;
  }
  json["status"] = item.status;
  return json;
}

OrderedJson ResponsesWriter::response(const char* status, bool has_output) const {
  OrderedJson json = {{"id", identity_.id},
                      {"object", "response"},
                      {"created_at", identity_.created},
                      {"status", status},
                      {"background", false},
                      {"error", error_},
                      {"incomplete_details", nullptr},
                      {"model", identity_.model},
                      {"output", OrderedJson::array()}};
  if (std::string_view(status) == "incomplete")
    json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  if (has_output) {
    for (const Item& item : items_)
      json["output"].push_back(item_json(item));
  }
  json.update(options_.echo);
  json["usage"] = usage_;
  return json;
}

std::string ResponsesWriter::begin() {
  if (!options_.is_stream) return {};
  const OrderedJson fields = {{"response", response("in_progress", false)}};
  std::string events = event("response.created", fields);
  events += event("response.in_progress", fields);
  return events;
}

std::string ResponsesWriter::open(Kind kind, const ToolCall& call) {
  static constexpr const char* kPrefixes[] = {"rs_", "msg_", "fc_"};
  std::string events = close("completed");
  // The random part of the response's id and a number.
  const std::string suffix =
      str(identity_.id.substr(identity_.id.find('_') + 1), "_", items_.size());
  items_.push_back({.kind = kind,
                    .id = kPrefixes[static_cast<std::size_t>(kind)] + suffix,
                    .call_id = call.id,
                    .function = function_of(call)});
  is_open_ = true;
  const Item& item = items_.back();
  events += event("response.output_item.added",
                  {{"output_index", items_.size() - 1}, {"item", item_json(item)}});
  if (kind == Kind::Call) return events;
  return events + item_event(is_summary(item) ? "response.reasoning_summary_part.added"
                                              : "response.content_part.added",
                             {{"part", part_json(item, true)}});
}

// The events that end the part, or the arguments, of the last item.
std::string ResponsesWriter::close_part() {
  const Item& item = items_.back();
  if (item.kind == Kind::Call) {
    return item_event("response.function_call_arguments.done",
                      {{"name", item.function.name}, {"arguments", item.text}});
  }
  const OrderedJson text = {{"text", item.text}};
  const OrderedJson part = {{"part", part_json(item, false)}};
  if (is_summary(item)) {
    std::string events = item_event("response.reasoning_summary_text.done", text);
    events += item_event("response.reasoning_summary_part.done", part);
    return events;
  }
  std::string events = item.kind == Kind::Reasoning
                           ? item_event("response.reasoning_text.done", text)
                           : item_event("response.output_text.done",
                                        {{"text", item.text}, {"logprobs", item.logprobs}});
  events += item_event("response.content_part.done", part);
  return events;
}

std::string ResponsesWriter::close(const char* status) {
  if (!is_open_) return {};
  is_open_ = false;
  items_.back().status = status;
  if (!options_.is_stream) return {};
  std::string events = close_part();
  events += event("response.output_item.done",
                  {{"output_index", items_.size() - 1}, {"item", item_json(items_.back())}});
  return events;
}

// Adds `text` to the open item.
std::string ResponsesWriter::extend(const std::string& text, const OrderedJson& logprobs) {
  Item& item = items_.back();
  item.text += text;
  num_bytes_ += text.size();
  if (item.kind == Kind::Call)
    return item_event("response.function_call_arguments.delta", {{"delta", text}});
  if (item.kind == Kind::Reasoning) {
    return item_event(is_summary(item) ? "response.reasoning_summary_text.delta"
                                       : "response.reasoning_text.delta",
                      {{"delta", text}});
  }
  for (const OrderedJson& entry : logprobs)
    item.logprobs.push_back(entry);
  return item_event("response.output_text.delta", {{"delta", text}, {"logprobs", logprobs}});
}

std::string ResponsesWriter::add_text(Kind kind, const std::string& text) {
  if (text.empty()) return {};
  std::string events;
  if (!is_open_ || items_.back().kind != kind) events = open(kind);
  const OrderedJson logprobs = std::exchange(logprobs_, OrderedJson::array());
  return events + extend(text, logprobs);
}

// The piece that starts a call has its id.
std::string ResponsesWriter::add_call(const ToolCall& piece) {
  logprobs_ = OrderedJson::array();
  std::string events;
  if (!piece.id.empty()) events = open(Kind::Call, piece);
  return piece.arguments.empty() ? events : events + extend(piece.arguments, {});
}

std::string ResponsesWriter::add(const OutputDelta& delta) {
  std::string events = add_text(Kind::Reasoning, delta.reasoning);
  events += add_text(Kind::Message, delta.content);
  for (const ToolCall& piece : delta.calls)
    events += add_call(piece);
  return events;
}

// Only text has logprobs. They wait with text that may become a marker.
void ResponsesWriter::take_logprobs(const api::Update& update, bool was_thinking) {
  if (!options_.wants_logprobs || was_thinking) return;
  for (const api::TokenLogprobs& token : update.logprobs) {
    OrderedJson entry = token_json(*options_.tokenizer, token.token, token.logprob);
    entry["top_logprobs"] = OrderedJson::array();
    for (const auto& [id, logprob] : token.top)
      entry["top_logprobs"].push_back(token_json(*options_.tokenizer, id, logprob));
    num_bytes_ += 64 * (1 + token.top.size());  // about
    logprobs_.push_back(std::move(entry));
  }
}

std::string ResponsesWriter::append(std::size_t /*prompt*/, const api::Update& update) {
  const bool was_thinking = parser_.is_thinking();
  const OutputDelta delta = parser_.feed(update.text);
  if (was_thinking || parser_.is_thinking())
    num_reasoning_ += static_cast<std::int64_t>(update.tokens.size());
  take_logprobs(update, was_thinking || parser_.is_thinking());
  std::string events = add(delta);
  if (!update.finish) return events;
  events += add(parser_.finish());
  is_cut_ = update.finish->reason == api::FinishReason::Length;
  return events + close(is_cut_ ? "incomplete" : "completed");
}

std::string ResponsesWriter::finish(const Usage& usage) {
  usage_ = response_usage(usage, num_reasoning_);
  const OrderedJson whole = response(is_cut_ ? "incomplete" : "completed", true);
  if (options_.on_finish) options_.on_finish(whole);
  if (!options_.is_stream) return ordered_text(whole);
  return event(is_cut_ ? "response.incomplete" : "response.completed", {{"response", whole}});
}

std::string ResponsesWriter::error(const std::string& message) {
  error_ = {{"code", "server_error"}, {"message", without_folders(message)}};
  std::string events = close("incomplete");
  return events + event("response.failed", {{"response", response("failed", true)}});
}

}  // namespace graft::server::openai::responses
