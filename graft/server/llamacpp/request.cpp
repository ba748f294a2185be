#include "graft/server/llamacpp/request.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "graft/base/text/str.h"
#include "graft/server/fields.h"
#include "graft/server/openai/completion_request.h"
#include "graft/server/openai/known_fields.h"

namespace graft::server::llamacpp {
namespace {

constexpr std::size_t kMaxResponseFields = 64;

// [[id, bias], …]; false: never.
std::vector<std::pair<api::TokenId, float>> read_bias_list(const Fields& fields,
                                                           const OrderedJson& list) {
  constexpr float kNever = -100;
  std::vector<std::pair<api::TokenId, float>> out;
  for (const OrderedJson& item : list) {
    const bool is_pair = item.is_array() && item.size() == 2 && item[0].is_number_unsigned() &&
                         item[0].get<std::uint64_t>() < (1U << 31U) &&
                         (item[1].is_number() || item[1] == false);
    if (!is_pair) fields.fail_at("logit_bias", str("expected [token id, bias], got ", item.dump()));
    out.emplace_back(item[0].get<api::TokenId>(),
                     item[1].is_number() ? item[1].get<float>() : kNever);
  }
  return out;
}

OrderedJson without(OrderedJson object, const char* key) {
  object.erase(key);
  return object;
}

// The fields of both paths. t_max_prompt_ms is one of llama.cpp's that does nothing there: editors
// set it to 1 in requests that fill the cache with long prompts.
constexpr auto kCommon = std::to_array<std::string_view>(
    {"model", "lora", "prompt", "n_predict", "max_tokens", "n_probs", "stream", "return_tokens",
     "n_indent", "t_max_predict_ms", "t_max_prompt_ms", "response_fields"});
constexpr auto kInfill =
    std::to_array<std::string_view>({"input_prefix", "input_suffix", "input_extra"});

void read_limits(const Fields& fields, Request& request) {
  constexpr std::int64_t kMaxIndent = 1 << 20;
  api::SamplingParams& params = request.sampling.params;
  // Negative: no limit.
  const char* limit = fields.has("n_predict") ? "n_predict" : "max_tokens";
  if (const auto max_tokens = fields.integer(limit); max_tokens && *max_tokens >= 0) {
    request.is_prompt_only = *max_tokens == 0;
    params.max_tokens = std::max<std::int64_t>(*max_tokens, 1);
  }
  params.min_indent = fields.integer("n_indent", 0, kMaxIndent).value_or(0);
  if (const auto ms = fields.integer("t_max_predict_ms"); ms && *ms > 0) params.max_line_ms = *ms;
  fields.integer("t_max_prompt_ms");
}

Request read_common(const OrderedJson& body, std::span<const std::string_view> more) {
  const Fields fields(body);
  std::vector<std::string_view> own(kCommon.begin(), kCommon.end());
  own.insert(own.end(), more.begin(), more.end());
  openai::check_known(fields, own);
  Request request;
  request.model = read_model(fields);
  const OrderedJson* bias = fields.find("logit_bias");
  if (bias != nullptr && bias->is_array()) {
    const OrderedJson rest = without(body, "logit_bias");
    request.sampling = openai::read_sampling(Fields(rest));
    request.sampling.params.logit_bias = read_bias_list(fields, *bias);
  } else {
    request.sampling = openai::read_sampling(fields);
  }
  api::SamplingParams& params = request.sampling.params;
  if (fields.integer("seed").value_or(0) == -1) params.seed.reset();
  read_limits(fields, request);
  if (const auto probs = fields.integer("n_probs", 0, openai::kMaxAlternatives);
      probs && *probs > 0)
    params.logprobs = *probs;
  request.is_stream = fields.boolean("stream").value_or(false);
  request.return_tokens = fields.boolean("return_tokens").value_or(false);
  request.response_fields = fields.strings("response_fields", kMaxResponseFields);
  return request;
}

}  // namespace

Request read_completion(const OrderedJson& body) {
  const Fields fields(body);
  Request request = read_common(body, {});
  std::vector<api::Prompt> prompts = openai::read_prompts(fields, "prompt");
  if (prompts.size() != 1)
    fields.fail_at("prompt", str("has ", prompts.size(), " prompts, use /v1/completions"));
  request.prompt = std::move(prompts.front());
  return request;
}

Request read_infill(const OrderedJson& body) {
  const Fields fields(body);
  Request request = read_common(body, kInfill);
  request.is_infill = true;
  request.prompt =
      fields.string("input_prefix").value_or("") + fields.string("prompt").value_or("");
  request.suffix = fields.string("input_suffix").value_or("");
  const OrderedJson* files = fields.find("input_extra");
  if (files == nullptr) return request;
  if (!files->is_array()) fields.fail_at("input_extra", "expected a list");
  for (const OrderedJson& file : *files) {
    const Fields one(file, "input_extra.");
    request.files.emplace_back(one.string("filename").value_or("file"),
                               one.required_string("text"));
  }
  return request;
}

}  // namespace graft::server::llamacpp
