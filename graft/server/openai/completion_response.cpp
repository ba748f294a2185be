#include "graft/server/openai/completion_response.h"

#include <algorithm>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/json_text.h"

namespace graft::server::openai {

CompletionResponseWriter::CompletionResponseWriter(Identity identity,
                                                   CompletionResponseOptions options)
    : identity_(std::move(identity)), options_(std::move(options)) {
  const auto num_samples = static_cast<std::size_t>(options_.num_samples);
  choices_.resize(options_.num_prompts * num_samples);
  for (std::size_t i = 0; i < choices_.size() && !options_.echoes.empty(); ++i)
    num_bytes_ += (choices_[i].text = options_.echoes[i / num_samples]).size();
}

OrderedJson CompletionResponseWriter::head() const {
  return {{"id", identity_.id},
          {"object", "text_completion"},
          {"created", identity_.created},
          {"model", identity_.model},
          {"system_fingerprint", system_fingerprint()}};
}

std::size_t CompletionResponseWriter::Logprobs::num_bytes() const {
  return tokens.size() + values.size() + tops.size() + offsets.size() * sizeof(offsets[0]);
}

std::string CompletionResponseWriter::to_text(const Logprobs& logprobs) {
  JsonObjectText json;
  json.add("tokens", str("[", logprobs.tokens, "]"));
  json.add("token_logprobs", str("[", logprobs.values, "]"));
  json.add("top_logprobs", str("[", logprobs.tops, "]"));
  json.add("text_offset", ordered_text(logprobs.offsets));
  return json.take();
}

JsonObjectText CompletionResponseWriter::choice_json(std::size_t index,
                                                     const std::string& text,
                                                     const Logprobs* logprobs,
                                                     const OrderedJson& finish_reason) {
  JsonObjectText json({{"index", index}, {"text", text}});
  json.add("logprobs", logprobs == nullptr ? "null" : to_text(*logprobs));
  json.add("finish_reason", ordered_text(finish_reason));
  return json;
}

std::string CompletionResponseWriter::chunk(std::size_t index,
                                            const std::string& text,
                                            const Logprobs* logprobs,
                                            const OrderedJson& finish_reason) const {
  JsonObjectText json(head());
  json.add("choices", str("[", choice_json(index, text, logprobs, finish_reason).take(), "]"));
  return str("data: ", json.take(), "\n\n");
}

std::string CompletionResponseWriter::begin() {
  std::string text;
  for (std::size_t i = 0; i < choices_.size() && !options_.echoes.empty(); ++i)
    text += chunk(i, choices_[i].text, nullptr, nullptr);
  return text;
}

void CompletionResponseWriter::add_token(Choice& choice,
                                         const api::TokenLogprobs& token,
                                         Logprobs& out,
                                         bool is_first) const {
  const std::string text = token_text(*options_.tokenizer, token.token);
  append_item(out.tokens, ordered_text(text));
  out.offsets.push_back(choice.offset);
  choice.offset += text.size();
  if (is_first) {
    append_item(out.values, "null");
    append_item(out.tops, "null");
    return;
  }
  append_item(out.values, ordered_text(std::max(token.logprob, -9999.0F)));
  OrderedJson top = OrderedJson::object();
  for (const auto& [id, logprob] : token.top)
    top[token_text(*options_.tokenizer, id)] = std::max(logprob, -9999.0F);
  append_item(out.tops, ordered_text(top));
}

// Prepends the prompt's logprobs. The first prompt token has no predecessor, so its logprob is
// null.
void CompletionResponseWriter::add_prompt(Choice& choice,
                                          std::size_t prompt,
                                          const api::Update& update) const {
  Logprobs out;
  choice.offset = 0;
  add_token(choice, {.token = options_.prompts[prompt][0]}, out, /*is_first=*/true);
  for (api::TokenLogprobs token : update.prompt_logprobs) {
    token.top.resize(std::min(token.top.size(), static_cast<std::size_t>(options_.num_echo_top)));
    add_token(choice, token, out);
  }
  if (!options_.discard_output && !choice.logprobs.offsets.empty()) {
    append_item(out.tokens, choice.logprobs.tokens);
    append_item(out.values, choice.logprobs.values);
    append_item(out.tops, choice.logprobs.tops);
    for (const std::size_t offset : choice.logprobs.offsets)
      out.offsets.push_back(offset + choice.offset);
  }
  choice.logprobs = std::move(out);
}

std::string CompletionResponseWriter::append(std::size_t prompt, const api::Update& update) {
  const std::size_t index = prompt * static_cast<std::size_t>(options_.num_samples) +
                            static_cast<std::size_t>(update.id.sample);
  Choice& choice = choices_[index];
  if (update.finish) choice.finish_reason = finish_text(*update.finish);
  const std::string& text = options_.discard_output ? std::string() : update.text;
  if (options_.is_stream) {
    Logprobs logprobs;
    for (const api::TokenLogprobs& token : update.logprobs)
      add_token(choice, token, logprobs);
    const bool has_logprobs = options_.wants_logprobs && !update.logprobs.empty();
    if (text.empty() && !update.finish && !has_logprobs) return {};
    return chunk(index, text, has_logprobs ? &logprobs : nullptr,
                 update.finish ? OrderedJson(choice.finish_reason) : OrderedJson(nullptr));
  }
  num_bytes_ -= choice.text.size() + choice.logprobs.num_bytes();
  choice.text += text;
  for (const api::TokenLogprobs& token : update.logprobs)
    add_token(choice, token, choice.logprobs);
  if (update.finish && options_.wants_logprobs && !options_.echoes.empty())
    add_prompt(choice, prompt, update);
  if (update.finish && options_.prompt_logprobs) {
    choice.prompt_logprobs = prompt_logprobs_text(*options_.tokenizer, update.prompt_logprobs,
                                                  *options_.prompt_logprobs);
    num_bytes_ += choice.prompt_logprobs.size();
  }
  num_bytes_ += choice.text.size() + choice.logprobs.num_bytes();
  return {};
}

std::string CompletionResponseWriter::finish(const Usage& usage) {
  Usage counted = usage;
  if (options_.discard_output) counted.num_output = 0;
  const OrderedJson counts = usage_json(counted, 0);
  if (options_.is_stream) {
    std::string text;
    if (options_.include_usage) {
      OrderedJson json = head();
      json["choices"] = OrderedJson::array();
      json["usage"] = counts;
      text = sse(json);
    }
    return text + std::string(kSseEnd);
  }
  std::string choices;
  for (std::size_t i = 0; !choices_.empty(); ++i) {
    const Choice& choice = choices_.front();
    JsonObjectText json = choice_json(
        i, choice.text, options_.wants_logprobs ? &choice.logprobs : nullptr, choice.finish_reason);
    if (options_.prompt_logprobs) json.add("prompt_logprobs", choice.prompt_logprobs);
    append_item(choices, json.take());
    choices_.pop_front();
  }
  JsonObjectText json(head());
  json.add("choices", str("[", std::exchange(choices, {}), "]"));
  json.add("usage", ordered_text(counts));
  return json.take();
}

}  // namespace graft::server::openai
