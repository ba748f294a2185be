#include "graft/server/openai/known_fields.h"

#include <algorithm>
#include <array>

#include "graft/base/text/json.h"

namespace graft::server::openai {
namespace {

// What read_sampling() reads.
constexpr auto kSampling = std::to_array<std::string_view>({"temperature",
                                                            "top_p",
                                                            "top_k",
                                                            "min_p",
                                                            "typical_p",
                                                            "presence_penalty",
                                                            "frequency_penalty",
                                                            "repetition_penalty",
                                                            "repeat_penalty",
                                                            "samplers",
                                                            "n",
                                                            "seed",
                                                            "speculate",
                                                            "stop",
                                                            "logit_bias",
                                                            "bad_words",
                                                            "min_tokens",
                                                            "ignore_eos",
                                                            "stop_token_ids",
                                                            "allowed_token_ids",
                                                            "skip_special_tokens",
                                                            "include_stop_str_in_output",
                                                            "response_format",
                                                            "structured_outputs",
                                                            "guided_json",
                                                            "guided_regex",
                                                            "guided_choice",
                                                            "guided_grammar",
                                                            "json_schema",
                                                            "grammar",
                                                            "regex"});

// Names of the client, prices and hints for speed (any sequence finds what the prefix cache has, so
// that a slot says nothing); and parameters of samplers that are off: the
// field that turns one on is refused.
constexpr auto kWithoutEffect = std::to_array<std::string_view>(
    {"user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
     "service_tier", "prediction", "cache_prompt", "n_cache_reuse", "id_slot",
     "spaces_between_special_tokens", "dry_base", "dry_allowed_length", "dry_penalty_last_n",
     "dry_sequence_breakers", "dynatemp_exponent", "xtc_threshold", "mirostat_tau",
     "mirostat_eta"});

struct Unsupported {
  std::string_view name;
  const char* why;
  double off = 0;  // the number that asks for nothing
};

constexpr const char* kNo = "is not supported";

constexpr auto kUnsupported = std::to_array<Unsupported>({
    // Structured output.
    {"ebnf", "is not supported: use grammar, in GBNF"},
    {"structural_tag", kNo},
    {"grammar_lazy", kNo},
    {"grammar_triggers", kNo},
    {"preserved_tokens", kNo},
    {"guided_decoding_backend", "is not supported: there is one"},
    {"guided_whitespace_pattern", kNo},
    // Samplers.
    {"use_beam_search", kNo},
    {"length_penalty", "applies to beam search, which is not supported", 1},
    {"min_keep", kNo},
    {"mirostat", kNo},
    {"dry_multiplier", kNo},
    {"dynatemp_range", kNo},
    {"xtc_probability", kNo},
    {"tfs_z", kNo, 1},
    {"top_a", kNo},
    {"top_n_sigma", kNo, -1},
    {"repeat_last_n", "is not supported: penalties count the whole text (-1)", -1},
    {"logits_processors", kNo},
    {"custom_logit_processor", kNo},
    {"custom_params", kNo},
    // Prompts.
    {"truncate_prompt_tokens", "is not supported: shorten the prompt"},
    {"n_keep", "is not supported: the start of a prompt is never dropped"},
    {"prompt_embeds", kNo},
    {"image_data", "images are not supported"},
    {"multimodal_data", "images and audio are not supported"},
    {"multi_modal_data", "images and audio are not supported"},
    {"media_io_kwargs", "images and audio are not supported"},
    {"mm_processor_kwargs", "images and audio are not supported"},
    // Output.
    {"echo", kNo},
    {"n_cmpl", "is not supported: use n", 1},
    {"n_indent", kNo},
    {"no_stop_trim", "is not supported: use include_stop_str_in_output"},
    {"response_fields", kNo},
    {"return_hidden_states", kNo},
    {"return_progress", kNo},
    {"return_token_ids", "is not supported: /tokenize has the ids of a text"},
    {"return_tokens_as_token_ids", kNo},
    {"post_sampling_probs", kNo},
    {"timings_per_token", kNo},
    {"t_max_predict_ms", kNo, -1},
    {"t_max_prompt_ms", kNo, -1},
    {"thinking_token_budget", kNo, -1},
    {"reasoning_budget", kNo, -1},
    {"thinking_forced_open", kNo},
    // Serving.
    {"kv_transfer_params", kNo},
    {"lora_path", "is not supported: load the adapter, and name it in lora or in model"},
    {"request_id", "is not supported: send the header X-Request-Id"},
    {"session_params", kNo},
    {"vllm_xargs", kNo},
});

// Clients send false, an empty text, list or object, or the number above to disable a feature.
bool is_off(const Unsupported& field, const OrderedJson& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  if (value.is_structured()) return value.empty();
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_number() && value.get<double>() == field.off;
}

bool has(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

void check_known(const Fields& fields, std::span<const std::string_view> own) {
  for (const auto& [name, value] : fields.json().items()) {
    if (value.is_null() || has(own, name) || has(kSampling, name) || has(kWithoutEffect, name))
      continue;
    const auto* field = std::ranges::find(kUnsupported, std::string_view(name), &Unsupported::name);
    if (field == kUnsupported.end()) fields.fail_at(name, kUnknownField);
    if (!is_off(*field, value)) fields.fail_at(name, field->why);
  }
}

}  // namespace graft::server::openai
