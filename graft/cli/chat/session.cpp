#include "graft/cli/chat/session.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/chat/messages.h"
#include "graft/cli/chat/kv_snapshot.h"
#include "graft/cli/image_file.h"
#include "graft/cli/text_file.h"
#include "graft/engine/sampling_params.h"
#include "graft/server/generation/output_parser.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/generation/tool_calls.h"
#include "graft/server/openai/wire.h"

namespace graft::cli {
namespace {

// A sampling parameter of /set.
struct Parameter {
  std::string_view name;
  void (*set)(api::SamplingParams& params, double value);
  double (*get)(const api::SamplingParams& params);
};

// Values out of range are rejected by engine::validate().
constexpr std::array kParameters = {
    Parameter{"temperature", [](auto& p, double v) { p.temperature = v; },
              [](const auto& p) { return p.temperature; }},
    Parameter{"top_p", [](auto& p, double v) { p.top_p = v; },
              [](const auto& p) { return p.top_p; }},
    Parameter{"top_k", [](auto& p, double v) { p.top_k = static_cast<std::int64_t>(v); },
              [](const auto& p) { return static_cast<double>(p.top_k); }},
    Parameter{"min_p", [](auto& p, double v) { p.min_p = v; },
              [](const auto& p) { return p.min_p; }},
    Parameter{"repetition_penalty", [](auto& p, double v) { p.repetition_penalty = v; },
              [](const auto& p) { return p.repetition_penalty; }},
    Parameter{"presence_penalty", [](auto& p, double v) { p.presence_penalty = v; },
              [](const auto& p) { return p.presence_penalty; }},
    Parameter{"frequency_penalty", [](auto& p, double v) { p.frequency_penalty = v; },
              [](const auto& p) { return p.frequency_penalty; }},
    // Below 0: unset.
    Parameter{"seed",
              [](auto& p, double v) {
                p.seed = v < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(v));
              },
              [](const auto& p) { return p.seed ? static_cast<double>(*p.seed) : -1; }},
    Parameter{"max_new_tokens",
              [](auto& p, double v) {
                p.max_tokens = v < 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(v));
              },
              [](const auto& p) { return p.max_tokens ? static_cast<double>(*p.max_tokens) : -1; }},
};

std::string parameter_names() {
  std::string names;
  for (const Parameter& parameter : kParameters)
    names.append(names.empty() ? "" : ", ").append(parameter.name);
  return names;
}

double number_of(std::string_view text, const std::string& name) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(name, ": \"", text, "\" is not a number");
  constexpr double kMax = 1e15;  // integers are exact in a double up to 2^53 (9e15)
  if (value > kMax || value < -kMax) fail(name, ": ", text, " is out of range");
  return value;
}

Json sampling_json(const api::SamplingParams& params) {
  Json json;
  for (const Parameter& parameter : kParameters)
    json[std::string(parameter.name)] = parameter.get(params);
  return json;
}

}  // namespace

api::Conversation Session::conversation_from(std::size_t first) const {
  api::Conversation conversation;
  if (!system_.empty()) conversation.messages.push_back({{"role", "system"}, {"content", system_}});
  for (std::size_t i = first; i < messages_.size(); ++i)
    conversation.messages.push_back(messages_[i]);
  conversation.tools = tools_;
  conversation.thinking = thinking;
  return conversation;
}

api::ChatPrompt Session::prompt_with(const Messages& messages, std::size_t first) const {
  api::Conversation conversation = conversation_from(first);
  for (const OrderedJson& message : messages)
    conversation.messages.push_back(message);
  return format_->prompt(conversation);
}

api::ChatPrompt Session::fitting_prompt(const Messages& messages, std::size_t& first) const {
  constexpr std::int64_t kMaxReserved = 512;  // tokens for the answer
  const std::int64_t reserved = std::min(kMaxReserved, max_context() / 8);
  const std::int64_t limit = max_context() - reserved;
  api::ChatPrompt prompt = prompt_with(messages, first);
  if (prompt.num_tokens() > limit && full_context == FullContext::Stop) {
    fail("the context of ", max_context(), " tokens is full: the conversation has ",
         prompt.num_tokens(), " tokens, ", reserved,
         " are reserved for the answer; /reset begins a new conversation");
  }
  while (prompt.num_tokens() > limit && first < messages_.size()) {
    // Up to the next question of the user: answers without their questions confuse models.
    do {
      ++first;
    } while (first < messages_.size() && messages_[first].value("role", "") != "user");
    prompt = prompt_with(messages, first);
  }
  if (first == messages_.size() && messages.front().value("role", "") == "tool") {
    fail("the context of ", max_context(), " tokens is full: there is no room for the results and ",
         "their calls; /reset begins a new conversation");
  }
  if (prompt.num_tokens() >= max_context()) {
    fail("the message has ", prompt.num_tokens(), " tokens with the system prompt, the context ",
         max_context());
  }
  return prompt;
}

void Session::set_tools(OrderedJson tools) {
  chat::check_tools(tools);
  tools_ = std::move(tools);
}

OrderedJson Session::last_calls() const {
  if (messages_.empty()) return OrderedJson::array();
  return messages_.back().value("tool_calls", OrderedJson::array());
}

OrderedJson Session::open_call() const {
  const OrderedJson calls = last_calls();
  return results_.size() < calls.size() ? calls[results_.size()] : OrderedJson();
}

const AnswerStats* Session::ask(const std::string& text, const Show& show) {
  const OrderedJson call = open_call();
  if (call.is_null()) {
    const AnswerStats& stats = ask(Messages{user_message(text, pending_images_)}, show);
    pending_images_.clear();
    return &stats;
  }
  results_.push_back({{"role", "tool"},
                      {"tool_call_id", call.at("id")},
                      {"name", call.at("function").at("name")},
                      {"content", text}});
  if (!open_call().is_null()) return nullptr;
  try {
    return &ask(Messages(results_), show);
  } catch (const Error&) {
    results_.pop_back();
    throw;
  }
}

const AnswerStats& Session::ask(const Messages& messages, const Show& show) {
  std::size_t first = num_left_out_;
  const api::ChatPrompt prompt = fitting_prompt(messages, first);

  const bool has_tools = !tools_.is_null();
  server::OutputParser parser(server::output_format(prompt, tools_, has_tools, false), true);
  server::OutputDelta answer;
  const auto add = [&](server::OutputDelta part) {
    show({.reasoning = part.reasoning, .content = part.content});
    answer.append(std::move(part));
  };
  api::SamplingParams sampling = params;
  server::show_markers(*llm_->tokenizer(), prompt, has_tools, sampling);
  last_stats_ = stream_answer(*llm_, {prompt.tokens, prompt.images}, sampling,
                              [&](std::string_view new_text) { add(parser.feed(new_text)); });
  add(parser.finish());
  num_left_out_ = first;
  for (const OrderedJson& each : messages)
    messages_.push_back(each);
  results_.clear();
  OrderedJson message = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const server::ToolCall& call : answer.calls)
    message["tool_calls"].push_back(server::openai::call_json(call));
  messages_.push_back(std::move(message));
  return *last_stats_;
}

const AnswerStats& Session::retry(const Show& show) {
  if (messages_.size() < 2 || messages_[messages_.size() - 2].value("role", "") != "user" ||
      messages_.back().value("role", "") != "assistant")
    fail("/retry: no answer to replace");
  const OrderedJson before = messages_;
  const std::size_t left_out_before = num_left_out_;
  const OrderedJson question = messages_[messages_.size() - 2];
  messages_.erase(messages_.size() - 1);
  messages_.erase(messages_.size() - 1);
  num_left_out_ = std::min(num_left_out_, messages_.size());
  try {
    return ask(Messages{question}, show);
  } catch (const Error&) {
    messages_ = before;
    num_left_out_ = left_out_before;
    throw;
  }
}

void Session::set_model(api::LLM& llm, const api::ChatFormat& format) {
  llm_ = &llm;
  format_ = &format;
  num_left_out_ = 0;
  last_stats_.reset();
}

std::string Session::last_answer() const {
  if (messages_.empty() || messages_.back().value("role", "") != "assistant") return "";
  const OrderedJson content = messages_.back().value("content", OrderedJson());
  return content.is_string() ? content.get<std::string>() : "";
}

std::int64_t Session::num_context_tokens() const {
  return last_stats_ ? last_stats_->num_prompt + last_stats_->num_output : 0;
}

void Session::add_image(const std::filesystem::path& path) {
  check_takes_images(*llm_, "/image");
  OrderedJson part = image_part(path);
  // Reports what the model cannot take before the message is written.
  api::Conversation conversation;
  conversation.messages.push_back(user_message("", {&part, 1}));
  format_->render_prompt(conversation);
  pending_images_.push_back(std::move(part));
}

void Session::reset() {
  pending_images_.clear();
  results_.clear();
  messages_ = OrderedJson::array();
  num_left_out_ = 0;
  last_stats_.reset();
}

void Session::save(const std::filesystem::path& path) const {
  const OrderedJson json = {{"graft", "conversation"},
                            {"model", llm_->source().config().name},
                            {"system", system_},
                            {"messages", messages_},
                            {"sampling", sampling_json(params)}};
  write_text_file(path, json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
  std::error_code ignored;
  std::filesystem::remove(cache_file(path), ignored);  // of an earlier conversation
  if (messages_.empty()) return;
  api::Conversation conversation = conversation_from(num_left_out_);
  conversation.add_generation_prompt = false;
  const api::ChatPrompt prompt = format_->prompt(conversation);
  save_kv_snapshot(*llm_, prompt, cache_file(path));
}

std::string Session::load(const std::filesystem::path& path) {
  const OrderedJson json = parse_ordered_json(read_text_file(path), path.string());
  if (!json.is_object() || json.value("graft", "") != "conversation")
    fail(path.string(), ": not a conversation saved with /save");
  try {
    OrderedJson messages = json.at("messages");
    if (!messages.empty()) chat::check_messages(messages);
    const auto system = json.at("system").get<std::string>();
    api::SamplingParams loaded = params;
    for (const Parameter& parameter : kParameters)
      parameter.set(loaded, json.at("sampling").at(std::string(parameter.name)).get<double>());
    engine::validate(loaded, llm_->source().config().vocab_size);
    messages_ = std::move(messages);
    results_.clear();
    num_left_out_ = 0;
    last_stats_.reset();
    system_ = system;
    params = loaded;
  } catch (const OrderedJson::exception& error) {
    fail(path.string(), ": ", error.what());
  }
  std::error_code ignored;
  if (!std::filesystem::exists(cache_file(path), ignored)) return "";
  try {
    restore_kv_snapshot(*llm_, cache_file(path));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void Session::set(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  std::string name = assignment.substr(0, equals);
  std::ranges::replace(name, '-', '_');
  const auto* parameter = std::ranges::find(kParameters, name, &Parameter::name);
  if (equals == std::string::npos || parameter == kParameters.end())
    fail("usage: /set NAME=VALUE with NAME one of ", parameter_names());
  api::SamplingParams changed = params;
  parameter->set(changed, number_of(std::string_view(assignment).substr(equals + 1), name));
  engine::validate(changed, llm_->source().config().vocab_size);
  params = changed;
}

std::string Session::settings_text() const {
  std::string text;
  for (const Parameter& parameter : kParameters) {
    const double value = parameter.get(params);
    text +=
        fmt::format("{:<20} {}\n", parameter.name, value == -1 ? "none" : fmt::format("{}", value));
  }
  return text;
}

}  // namespace graft::cli
