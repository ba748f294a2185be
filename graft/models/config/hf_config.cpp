#include "graft/models/config/hf_config.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/error.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/formats/huggingface/hf_config_files.h"
#include "graft/models/build/closest_family.h"
#include "graft/models/families/family.h"

namespace graft::models {
namespace {

using formats::Fields;

// By model_type; an unknown type may still name a known class.
const Family& family_of(const Json& json,
                        const Fields& config,
                        std::span<const formats::TensorInfo> tensors,
                        const std::string& where) {
  const std::string model_type = config.text("model_type", "");
  if (const Family* family = find_family(model_type)) return *family;
  const std::vector<std::string> classes = config.texts("architectures");
  if (const Family* family = find_family_of_class(classes)) return *family;
  if (model_type.empty() && classes.empty()) {
    fail(where, ": \"model_type\" is missing, supported are: ", supported_model_types());
  }
  fail(where, R"(: "model_type" is ")", model_type, R"(", supported are: )",
       supported_model_types(), "; ", closest_to_hf(json, tensors));
}

// "unknown": not given.
constexpr auto kQuantMethods = std::to_array<std::string_view>(
    {"fp8", "fbgemm_fp8", "mxfp4", "compressed-tensors", "gptq", "awq", "unknown"});

void read_quantization(const Fields& top, QuantizationConfig& quantization) {
  if (!top.has("quantization_config")) return;
  const Fields fields = top.object("quantization_config");
  quantization.method = fields.text("quant_method", "unknown");
  if (std::ranges::find(kQuantMethods, quantization.method) == kQuantMethods.end()) {
    fields.problem("quant_method", quantization.method,
                   "fp8, fbgemm_fp8, mxfp4, compressed-tensors, gptq or awq");
  }
  quantization.weight_block_size = fields.integers("weight_block_size");
  quantization.integers = formats::read_integer_config(fields);
  quantization.fp4_experts = fields.text("expert_dtype", top.text("expert_dtype", "")) == "fp4";
  // compressed-tensors has it per group; published checkpoints have one group.
  const Fields weights = fields.object("config_groups").object("group_0").object("weights");
  if (quantization.weight_block_size.empty() && weights.has("block_structure")) {
    quantization.weight_block_size = weights.integers("block_structure");
  }
}

// Multimodal models keep the token ids of their text model in "text_config".
void read_tokens(const Fields& top, const Fields* generation, ModelConfig& config) {
  formats::ModelTokens tokens;
  read_token_ids(top.object("text_config"), tokens);
  read_token_ids(top, tokens);
  if (generation != nullptr) read_token_ids(*generation, tokens);
  config.eos_token_ids = tokens.eos_token_ids;
  config.bos_token_id = tokens.bos_token_id;
  config.pad_token_id = tokens.pad_token_id;
}

void read_sampling(const Fields& generation, ModelConfig& config) {
  config.temperature = generation.number("temperature");
  config.top_p = generation.number("top_p");
  config.top_k = generation.integer("top_k");
  if (!generation.boolean("do_sample", true)) config.temperature = 0.0;
}

}  // namespace

void read_generation_config(const Json& generation_config,
                            const std::string& where,
                            ModelConfig& config) {
  std::vector<std::string> problems;
  const Fields generation(generation_config, "", problems);
  formats::ModelTokens tokens = config.tokens();
  read_token_ids(generation, tokens);
  config.eos_token_ids = tokens.eos_token_ids;
  read_sampling(generation, config);
  formats::fail_if_any(problems, where);
}

ModelConfig read_hf_config(const Json& config,
                           const Json* generation_config,
                           const std::string& where,
                           std::span<const formats::TensorInfo> tensors) {
  std::vector<std::string> problems;
  const Fields top(config, "", problems);
  formats::fail_if_any(problems, where);

  ModelConfig out;
  out.family = &family_of(config, top, tensors, where);
  out.torch_dtype = top.text("torch_dtype", top.text("dtype", ""));
  out.family->read_hf(top, out);
  read_quantization(top, out.quantization);
  if (generation_config != nullptr) {
    const Fields generation(*generation_config, "generation_config.", problems);
    read_tokens(top, &generation, out);
    read_sampling(generation, out);
  } else {
    read_tokens(top, nullptr, out);
  }
  formats::fail_if_any(problems, where);
  validate(out, where);
  return out;
}

}  // namespace graft::models
