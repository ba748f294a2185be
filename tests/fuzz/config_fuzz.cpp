// Fuzzes config.json, generation_config.json and tokenizer.json: reading either succeeds or throws
// Error. An accepted config must round-trip through GGUF metadata.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/formats/huggingface/hf_tokenizer.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/hf_config.h"
#include "graft/models/families/tensor_names.h"

namespace {

using namespace graft::formats;  // NOLINT(google-build-using-namespace): one short file
using namespace graft::models;   // NOLINT(google-build-using-namespace)
using graft::Json;

void read_config(const Json& json) {
  ModelConfig config;
  try {
    config = read_hf_config(json, &json, "fuzz");
  } catch (const graft::Error&) {
    return;
  }
  GgufMetadata metadata;
  write_gguf_config(config, metadata);
  const ModelConfig again = read_gguf_config(metadata, {}, "fuzz");
  GRAFT_CHECK(again.hidden_size == config.hidden_size, "hidden_size changed");
  GRAFT_CHECK(again.rope.kind == config.rope.kind, "rope changed");
  // Skip outputs that are large but valid.
  if (config.rotary_dim < 4096) rope_freqs(config);
  if (config.moe.num_experts < 64) to_huggingface(config, "blk.0.ffn_gate_exps.weight");
  to_gguf(config, "model.layers.0.self_attn.q_proj.weight");
}

void read_tokenizer(const Json& json) {
  std::vector<std::string> warnings;
  ModelTokens model;
  model.vocab_size = 300;  // more than the corpus needs, few unused ids to fill
  HfTokenizerExtras extras;
  extras.tokenizer_config = &json;
  extras.special_tokens_map = &json;
  try {
    const TokenizerData data = read_hf_tokenizer(json, extras, model, "fuzz", warnings);
    GRAFT_CHECK(data.tokens.size() == data.types.size(), "a token without a type");
  } catch (const graft::Error&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Json json;
  try {
    json = graft::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const graft::Error&) {
    return 0;
  }
  read_config(json);
  read_tokenizer(json);
  return 0;
}
