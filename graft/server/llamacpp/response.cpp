#include "graft/server/llamacpp/response.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/wire.h"

namespace graft::server::llamacpp {
namespace {

const char* stop_type(const api::Finish& finish) {
  if (finish.reason != api::FinishReason::Stop) return "limit";
  return finish.stop_text ? "word" : "eos";
}

double per_second(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

double per_token_ms(std::int64_t count, double seconds) {
  return count > 0 ? seconds * 1e3 / static_cast<double>(count) : 0;
}

OrderedJson timings(const Usage& usage) {
  const std::int64_t num_prompt = usage.num_prompt - usage.num_cached;
  OrderedJson json = {
      {"cache_n", usage.num_cached},
      {"prompt_n", num_prompt},
      {"prompt_ms", usage.prefill_seconds * 1e3},
      {"prompt_per_token_ms", per_token_ms(num_prompt, usage.prefill_seconds)},
      {"prompt_per_second", per_second(num_prompt, usage.prefill_seconds)},
      {"predicted_n", usage.num_output},
      {"predicted_ms", usage.decode_seconds * 1e3},
      {"predicted_per_token_ms", per_token_ms(usage.num_output, usage.decode_seconds)},
      {"predicted_per_second", per_second(usage.num_output, usage.decode_seconds)}};
  if (usage.num_draft_tokens > 0) {
    json["draft_n"] = usage.num_draft_tokens;
    json["draft_n_accepted"] = usage.num_accepted_tokens;
  }
  return json;
}

// The fields of these names, flat under their whole names; those that are missing are left out.
OrderedJson picked(const OrderedJson& all, const std::vector<std::string>& names) {
  OrderedJson out = OrderedJson::object();
  for (const std::string& name : names) {
    const OrderedJson* at = &all;
    for (std::size_t begin = 0; at != nullptr && begin <= name.size();) {
      const std::size_t end = std::min(name.find('/', begin), name.size());
      const auto found = at->is_object() ? at->find(name.substr(begin, end - begin)) : at->end();
      at = found == at->end() ? nullptr : &*found;
      begin = end + 1;
    }
    if (at != nullptr) out[name] = *at;
  }
  return out;
}

}  // namespace

CompletionWriter::CompletionWriter(ResponseOptions options) : options_(std::move(options)) {}

// The items of completion_probabilities.
std::string CompletionWriter::probabilities(const api::Update& update) const {
  std::string items;
  const auto entry = [&](api::TokenId token, float logprob) {
    OrderedJson json = {{"id", token}};
    json.update(openai::token_json(*options_.tokenizer, token, logprob));
    return json;
  };
  for (const api::TokenLogprobs& token : update.logprobs) {
    OrderedJson json = entry(token.token, token.logprob);
    json["top_logprobs"] = OrderedJson::array();
    for (const auto& [id, logprob] : token.top)
      json["top_logprobs"].push_back(entry(id, logprob));
    append_item(items, ordered_text(json));
  }
  return items;
}

std::string CompletionWriter::append(std::size_t /*prompt*/, const api::Update& update) {
  if (update.finish) finish_ = *update.finish;
  if (options_.is_prompt_only) return {};
  num_tokens_ += static_cast<std::int64_t>(update.tokens.size());
  has_new_line_ = has_new_line_ || update.text.find('\n') != std::string::npos;
  const std::string items = options_.wants_logprobs ? probabilities(update) : "";
  if (!options_.is_stream) {
    content_ += update.text;
    if (options_.return_tokens)
      tokens_.insert(tokens_.end(), update.tokens.begin(), update.tokens.end());
    if (!items.empty()) append_item(probabilities_, items);
    return {};
  }
  if (update.text.empty() && items.empty()) return {};
  JsonObjectText json({{"index", 0},
                       {"content", update.text},
                       {"tokens", update.tokens},
                       {"stop", false},
                       {"tokens_predicted", num_tokens_},
                       {"tokens_evaluated", update.num_prompt}});
  if (!items.empty()) json.add("completion_probabilities", str("[", items, "]"));
  return str("data: ", json.take(), "\n\n");
}

std::string CompletionWriter::finish(const Usage& usage) {
  Usage used = usage;
  if (options_.is_prompt_only) used.num_output = 0;
  const OrderedJson all = {{"index", 0},
                           {"content", content_},
                           {"tokens", tokens_},
                           {"stop", true},
                           {"model", options_.model},
                           {"tokens_predicted", used.num_output},
                           {"tokens_evaluated", used.num_prompt},
                           {"prompt", options_.prompt},
                           {"has_new_line", has_new_line_},
                           {"truncated", false},
                           {"stop_type", stop_type(finish_)},
                           {"stopping_word", finish_.stop_text.value_or("")},
                           {"tokens_cached", used.num_cached},
                           {"timings", timings(used)}};
  constexpr const char* kProbabilities = "completion_probabilities";
  const std::vector<std::string>& fields = options_.fields;
  const bool is_whole = fields.empty();
  JsonObjectText json(is_whole ? all : picked(all, fields));
  if (!probabilities_.empty() &&
      (is_whole || std::ranges::find(fields, kProbabilities) != fields.end()))
    json.add(kProbabilities, str("[", probabilities_, "]"));
  const std::string text = json.take();
  return options_.is_stream ? str("data: ", text, "\n\n") : text;
}

std::string CompletionWriter::error(const std::string& message) {
  return openai::sse_error(message);
}

std::size_t CompletionWriter::num_bytes() const {
  return content_.size() + probabilities_.size() + options_.prompt.size() +
         tokens_.size() * sizeof(api::TokenId);
}

}  // namespace graft::server::llamacpp
