#include "graft/server/openai/completion_response.h"

#include <algorithm>
#include <utility>

#include "graft/server/json_text.h"

namespace graft::server::openai {

CompletionResponseWriter::CompletionResponseWriter(Identity identity,
                                                   CompletionResponseOptions options)
    : identity_(std::move(identity)), options_(std::move(options)) {
  const auto num_samples = static_cast<std::size_t>(options_.num_samples);
  choices_.resize(options_.num_prompts * num_samples);
  for (std::size_t i = 0; i < choices_.size() && !options_.echoes.empty(); ++i)
    choices_[i].text = options_.echoes[i / num_samples];
}

OrderedJson CompletionResponseWriter::head() const {
  return {{"id", identity_.id},
          {"object", "text_completion"},
          {"created", identity_.created},
          {"model", identity_.model}};
}

OrderedJson CompletionResponseWriter::to_json(const Logprobs& logprobs) {
  return {{"tokens", logprobs.tokens},
          {"token_logprobs", logprobs.values},
          {"top_logprobs", logprobs.tops},
          {"text_offset", logprobs.offsets}};
}

std::string CompletionResponseWriter::chunk(std::size_t index,
                                            const std::string& text,
                                            const OrderedJson& logprobs,
                                            const OrderedJson& finish_reason) const {
  OrderedJson json = head();
  json["choices"] = OrderedJson::array({{{"index", index},
                                         {"text", text},
                                         {"logprobs", logprobs},
                                         {"finish_reason", finish_reason}}});
  return sse(json);
}

std::string CompletionResponseWriter::begin() {
  std::string text;
  for (std::size_t i = 0; i < choices_.size() && !options_.echoes.empty(); ++i)
    text += chunk(i, choices_[i].text, nullptr, nullptr);
  return text;
}

void CompletionResponseWriter::add_token(Choice& choice,
                                         const api::TokenLogprobs& token,
                                         Logprobs& out) const {
  const std::string text = token_text(*options_.tokenizer, token.token);
  out.tokens.push_back(text);
  out.values.push_back(std::max(token.logprob, -9999.0F));
  OrderedJson top = OrderedJson::object();
  for (const auto& [id, logprob] : token.top)
    top[token_text(*options_.tokenizer, id)] = std::max(logprob, -9999.0F);
  out.tops.push_back(std::move(top));
  out.offsets.push_back(choice.offset);
  choice.offset += text.size();
}

// Prepends the prompt's logprobs. The first prompt token has no predecessor, so its logprob is
// null.
void CompletionResponseWriter::add_prompt(Choice& choice,
                                          std::size_t prompt,
                                          const api::Update& update) const {
  Logprobs out;
  choice.offset = 0;
  add_token(choice, {.token = options_.prompts[prompt][0]}, out);
  out.values[0] = nullptr;
  out.tops[0] = nullptr;
  for (const api::TokenLogprobs& token : update.prompt_logprobs)
    add_token(choice, token, out);
  const std::size_t length = choice.offset;
  for (std::size_t i = 0; i < choice.logprobs.tokens.size() && !options_.discard_output; ++i) {
    out.tokens.push_back(choice.logprobs.tokens[i]);
    out.values.push_back(choice.logprobs.values[i]);
    out.tops.push_back(choice.logprobs.tops[i]);
    out.offsets.push_back(choice.logprobs.offsets[i].get<std::size_t>() + length);
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
    return chunk(index, text, has_logprobs ? to_json(logprobs) : OrderedJson(nullptr),
                 update.finish ? OrderedJson(choice.finish_reason) : OrderedJson(nullptr));
  }
  choice.text += text;
  for (const api::TokenLogprobs& token : update.logprobs)
    add_token(choice, token, choice.logprobs);
  if (update.finish && options_.wants_logprobs && !options_.echoes.empty())
    add_prompt(choice, prompt, update);
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
  OrderedJson json = head();
  json["choices"] = OrderedJson::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    json["choices"].push_back(
        {{"index", i},
         {"text", choice.text},
         {"logprobs", options_.wants_logprobs ? to_json(choice.logprobs) : OrderedJson(nullptr)},
         {"finish_reason", choice.finish_reason}});
  }
  json["usage"] = counts;
  return ordered_text(json);
}

}  // namespace graft::server::openai
