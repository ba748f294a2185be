#include "graft/server/llamacpp/request.h"

#include <array>

#include "graft/base/text/str.h"
#include "graft/server/fields.h"
#include "graft/server/openai/completion_request.h"

namespace graft::server::llamacpp {
namespace {

struct OffValue {
  const char* name;
  double value;  // that asks for nothing
};

// Features of llama.cpp that do not exist here.
constexpr std::array kOffValues = {
    OffValue{"dynatemp_range", 0}, OffValue{"n_indent", 0},          OffValue{"id_slot", -1},
    OffValue{"n_keep", 0},         OffValue{"t_max_predict_ms", -1}, OffValue{"repeat_last_n", -1},
    OffValue{"tfs_z", 1},          OffValue{"min_keep", 0},          OffValue{"top_n_sigma", -1},
};

constexpr std::array kNotSupported = {"samplers", "response_fields", "image_data",
                                      "multimodal_data", "prompt_logprobs"};

void reject_features(const Fields& fields) {
  openai::reject_unsupported(fields);
  for (const OffValue& off : kOffValues) {
    const auto value = fields.number(off.name, -1e18, 1e18);
    if (value && *value != off.value)
      fields.fail_at(off.name, str("is not supported, only ", off.value));
  }
  for (const char* name : kNotSupported)
    fields.reject(name, "is not supported");
  for (const char* name : {"post_sampling_probs", "return_progress"}) {
    if (fields.boolean(name).value_or(false)) fields.fail_at(name, "is not supported");
  }
}

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

Request read_common(const OrderedJson& body) {
  const Fields fields(body);
  reject_features(fields);
  Request request;
  request.model = fields.string("model").value_or("");
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
  // Negative: no limit.
  if (const auto max_tokens = fields.integer("n_predict"); max_tokens && *max_tokens >= 0) {
    if (*max_tokens == 0) fields.fail_at("n_predict", "must be at least 1, or -1 for no limit");
    params.max_tokens = *max_tokens;
  }
  if (const auto probs = fields.integer("n_probs", 0, openai::kMaxAlternatives);
      probs && *probs > 0)
    params.logprobs = *probs;
  request.is_stream = fields.boolean("stream").value_or(false);
  request.return_tokens = fields.boolean("return_tokens").value_or(false);
  return request;
}

}  // namespace

Request read_completion(const OrderedJson& body) {
  const Fields fields(body);
  Request request = read_common(body);
  std::vector<api::Prompt> prompts = openai::read_prompts(fields, "prompt");
  if (prompts.size() != 1)
    fields.fail_at("prompt", str("has ", prompts.size(), " prompts, use /v1/completions"));
  request.prompt = std::move(prompts.front());
  return request;
}

Request read_infill(const OrderedJson& body) {
  const Fields fields(body);
  Request request = read_common(body);
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
