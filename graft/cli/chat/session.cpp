#include "graft/cli/chat/session.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/chat/messages.h"
#include "graft/cli/options/rule_options.h"
#include "graft/engine/sampling_params.h"

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

const AnswerStats& Session::ask(const std::string& text, const Show& show) {
  api::Conversation conversation;
  if (!system_.empty()) conversation.messages.push_back({{"role", "system"}, {"content", system_}});
  for (const OrderedJson& message : messages_)
    conversation.messages.push_back(message);
  const OrderedJson user_message = {{"role", "user"}, {"content", text}};
  conversation.messages.push_back(user_message);
  conversation.thinking = thinking;
  const api::ChatPrompt prompt = format_->prompt(conversation);

  chat::ReasoningSplitter splitter(prompt.in_thinking, prompt.reasoning);
  chat::ResponseDelta answer;
  const auto add = [&](const chat::ResponseDelta& part) {
    answer.reasoning += part.reasoning;
    answer.content += part.content;
    show(part);
  };
  api::SamplingParams sampling = params;
  if (prompt.reasoning.is_harmony) sampling.skip_special_tokens = false;
  last_stats_ = stream_answer(*llm_, prompt.tokens, sampling,
                              [&](std::string_view new_text) { add(splitter.feed(new_text)); });
  add(splitter.finish());
  messages_.push_back(user_message);
  OrderedJson message = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  messages_.push_back(std::move(message));
  return *last_stats_;
}

void Session::reset() {
  messages_ = OrderedJson::array();
  last_stats_.reset();
}

void Session::save(const std::filesystem::path& path) const {
  const OrderedJson json = {{"graft", "conversation"},
                            {"model", llm_->source().config().name},
                            {"system", system_},
                            {"messages", messages_},
                            {"sampling", sampling_json(params)}};
  write_text_file(path, json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

void Session::load(const std::filesystem::path& path) {
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
    system_ = system;
    params = loaded;
  } catch (const OrderedJson::exception& error) {
    fail(path.string(), ": ", error.what());
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
