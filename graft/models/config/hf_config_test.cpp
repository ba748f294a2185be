#include "graft/models/config/hf_config.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/models/families/family.h"
#include "graft/testing/config_folder.h"
#include "graft/testing/shared_data.h"

namespace graft::models {
namespace {

ModelConfig read_text(const std::string& text) {
  return read_hf_config(parse_json(text, "test"), nullptr, "config.json");
}

std::string config_error(const std::string& text) {
  try {
    read_text(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The values that all golden_config checkpoints share; each test sets those of its family.
ModelConfig golden_config(std::string_view model_type) {
  ModelConfig want;
  want.family = find_family(model_type);
  want.torch_dtype = "bfloat16";
  want.vocab_size = 320;
  want.hidden_size = 128;
  want.intermediate_size = 256;
  want.num_hidden_layers = 3;
  want.num_attention_heads = 4;
  want.num_key_value_heads = 2;
  want.head_dim = 32;
  want.rotary_dim = 32;
  want.max_position_embeddings = 512;
  want.eos_token_ids = {2};
  want.bos_token_id = 1;
  want.pad_token_id = 0;
  return want;
}

ModelConfig tiny_deepseek(std::string_view model_type, bool with_q_lora) {
  ModelConfig want = golden_config(model_type);
  want.num_key_value_heads = 4;
  want.head_dim = 48;
  want.rotary_dim = 16;
  want.rope_interleaved = true;
  want.mla = {.q_lora_rank = with_q_lora ? 96 : 0,
              .kv_lora_rank = 64,
              .qk_nope_head_dim = 32,
              .qk_rope_head_dim = 16,
              .v_head_dim = 32};
  want.moe.num_experts = 16;
  want.moe.num_experts_per_tok = 4;
  want.moe.moe_intermediate_size = 64;
  want.moe.num_shared_experts = 2;
  want.moe.shared_expert_intermediate_size = 128;
  want.moe.first_k_dense_replace = 1;
  return want;
}

ModelConfig tiny_deepseek_v3() {
  ModelConfig want = tiny_deepseek("deepseek_v3", true);
  want.num_nextn_predict_layers = 1;
  want.moe.num_shared_experts = 1;
  want.moe.shared_expert_intermediate_size = 64;
  want.moe.scoring_func = RouterScoring::Sigmoid;
  want.moe.topk_method = RouterMethod::NoauxTc;
  want.moe.n_group = 4;
  want.moe.topk_group = 2;
  want.moe.norm_topk_prob = true;
  want.moe.routed_scaling_factor = 2.5;
  return want;
}

RopeConfig tiny_yarn(double mscale) {
  RopeConfig rope;
  rope.kind = RopeKind::Yarn;
  rope.factor = 8.0;
  rope.original_max_position_embeddings = 128;
  rope.mscale = mscale;
  rope.mscale_all_dim = mscale;
  return rope;
}

void expect_golden(const std::string& folder, const ModelConfig& want) {
  SCOPED_TRACE(folder);
  const auto path = test_data("golden/" + folder);
  EXPECT_EQ(read_config_folder(path), want);
}

TEST(HfConfig, ReadsGoldenLlama) {
  expect_golden("llama", golden_config("llama"));
  ModelConfig want = golden_config("llama");
  want.max_position_embeddings = 2048;
  want.rope.theta = 500000.0;
  want.rope.kind = RopeKind::Llama3;
  want.rope.factor = 8.0;
  want.rope.original_max_position_embeddings = 256;
  expect_golden("llama3-rope", want);
}

TEST(HfConfig, ReadsGoldenLlava) {
  ModelConfig want = golden_config("llava");
  want.vision.emplace();
  want.vision->hidden_size = 96;
  want.vision->intermediate_size = 192;
  want.vision->num_hidden_layers = 3;
  want.vision->num_attention_heads = 3;
  want.vision->image_size = 56;
  want.vision->patch_size = 14;
  want.vision->image_token_index = 319;
  want.vision->processor.shortest_edge = 56;
  want.vision->processor.crop_size = 56;
  expect_golden("llava", want);
}

TEST(HfConfig, ReadsGoldenMixtral) {
  ModelConfig want = golden_config("mixtral");
  want.rope.theta = 1e6;
  want.moe.num_experts = 8;
  want.moe.num_experts_per_tok = 2;
  want.moe.moe_intermediate_size = 256;
  want.moe.norm_topk_prob = true;
  expect_golden("mixtral", want);
}

TEST(HfConfig, ReadsGoldenQwen) {
  ModelConfig want = golden_config("qwen2");
  want.rope.theta = 1e6;
  want.attention_bias = true;
  want.tie_word_embeddings = true;
  expect_golden("qwen2", want);

  want = golden_config("qwen2_moe");
  want.rope.theta = 1e6;
  want.attention_bias = true;
  want.moe.num_experts = 8;
  want.moe.num_experts_per_tok = 2;
  want.moe.moe_intermediate_size = 64;
  want.moe.num_shared_experts = 1;
  want.moe.shared_expert_intermediate_size = 128;
  want.moe.shared_expert_gate = true;
  expect_golden("qwen2-moe", want);

  want = golden_config("qwen3");
  want.rope.theta = 1e6;
  want.head_dim = 64;
  want.rotary_dim = 64;
  want.qk_norm = true;
  expect_golden("qwen3", want);

  want.family = find_family("qwen3_moe");
  want.moe.num_experts = 16;
  want.moe.num_experts_per_tok = 4;
  want.moe.moe_intermediate_size = 64;
  want.moe.norm_topk_prob = true;
  expect_golden("qwen3-moe", want);
}

TEST(HfConfig, ReadsGoldenDeepseekV2) {
  expect_golden("deepseek-v2-lite", tiny_deepseek("deepseek_v2", false));

  ModelConfig want = tiny_deepseek("deepseek_v2", true);
  want.moe.topk_method = RouterMethod::GroupLimitedGreedy;
  want.moe.n_group = 4;
  want.moe.topk_group = 2;
  want.moe.routed_scaling_factor = 16.0;
  expect_golden("deepseek-v2", want);

  want = tiny_deepseek("deepseek_v2", false);
  want.max_position_embeddings = 1024;
  want.rope = tiny_yarn(0.707);
  expect_golden("deepseek-v2-yarn", want);
}

TEST(HfConfig, ReadsGoldenDeepseekV3) {
  ModelConfig want = tiny_deepseek_v3();
  expect_golden("deepseek-v3", want);
  want.max_position_embeddings = 1024;
  want.rope = tiny_yarn(1.0);
  expect_golden("deepseek-v3-yarn", want);
}

TEST(HfConfig, ReadsGoldenGlm) {
  ModelConfig want = golden_config("glm4_moe");
  want.rotary_dim = 16;
  want.num_nextn_predict_layers = 1;
  want.attention_bias = true;
  want.qk_norm = true;
  want.moe.num_experts = 16;
  want.moe.num_experts_per_tok = 4;
  want.moe.moe_intermediate_size = 64;
  want.moe.num_shared_experts = 1;
  want.moe.shared_expert_intermediate_size = 64;
  want.moe.first_k_dense_replace = 1;
  want.moe.scoring_func = RouterScoring::Sigmoid;
  want.moe.topk_method = RouterMethod::NoauxTc;
  want.moe.norm_topk_prob = true;
  expect_golden("glm4-moe", want);
}

struct PublishedShape {
  std::string_view folder;
  const char* model_type;
  std::int64_t layers, hidden, heads, kv_heads, head_dim, rotary_dim, vocab, experts, used;
  RopeKind rope;
};

std::ostream& operator<<(std::ostream& out, const PublishedShape& published) {
  return out << published.folder;
}

class PublishedTest : public ::testing::TestWithParam<PublishedShape> {};

TEST_P(PublishedTest, ReadsShape) {
  const PublishedShape& want = GetParam();
  const auto path = test_data("configs") / want.folder;
  const ModelConfig got = read_config_folder(path);
  EXPECT_EQ(got.family->model_type(), want.model_type);
  EXPECT_EQ(got.num_hidden_layers, want.layers);
  EXPECT_EQ(got.hidden_size, want.hidden);
  EXPECT_EQ(got.num_attention_heads, want.heads);
  EXPECT_EQ(got.num_key_value_heads, want.kv_heads);
  EXPECT_EQ(got.head_dim, want.head_dim);
  EXPECT_EQ(got.rotary_dim, want.rotary_dim);
  EXPECT_EQ(got.vocab_size, want.vocab);
  EXPECT_EQ(got.moe.num_experts, want.experts);
  EXPECT_EQ(got.moe.num_experts_per_tok, want.used);
  EXPECT_EQ(got.rope.kind, want.rope);
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Shapes, PublishedTest, ::testing::Values(
    PublishedShape{"DeepSeek-V2-Lite", "deepseek_v2", 27, 2048,  16,  16, 192,  64, 102400,  64, 6, RopeKind::Yarn},
    PublishedShape{"DeepSeek-V2",      "deepseek_v2", 60, 5120, 128, 128, 192,  64, 102400, 160, 6, RopeKind::Yarn},
    PublishedShape{"DeepSeek-V3",      "deepseek_v3", 61, 7168, 128, 128, 192,  64, 129280, 256, 8, RopeKind::Yarn},
    PublishedShape{"GLM-4.5-Air",      "glm4_moe",    46, 4096,  96,   8, 128,  64, 151552, 128, 8, RopeKind::Default},
    PublishedShape{"Kimi-K2",          "kimi_k2",     61, 7168,  64,  64, 192,  64, 163840, 384, 8, RopeKind::Yarn},
    PublishedShape{"Llama-3.1-8B",     "llama",      32, 4096,  32,   8, 128, 128, 128256,   0, 0, RopeKind::Llama3},
    PublishedShape{"Mixtral-8x7B",     "mixtral",    32, 4096,  32,   8, 128, 128,  32000,   8, 2, RopeKind::Default},
    PublishedShape{"Qwen2-57B-A14B",   "qwen2_moe",   28, 3584,  28,   4, 128, 128, 151936,  64, 8, RopeKind::Default},
    PublishedShape{"Qwen3-235B-A22B",  "qwen3_moe",   94, 4096,  64,   4, 128, 128, 151936, 128, 8, RopeKind::Default},
    PublishedShape{"Qwen3-30B-A3B",    "qwen3_moe",   48, 2048,  32,   4, 128, 128, 151936, 128, 8, RopeKind::Default}));
// clang-format on

TEST(HfConfig, ReadsDetailsOfPublishedConfigs) {
  const auto path = test_data("configs");
  const ModelConfig v3 = read_config_folder(path / "DeepSeek-V3");
  EXPECT_EQ(v3.quantization.method, "fp8");
  EXPECT_EQ(v3.quantization.weight_block_size, (std::vector<std::int64_t>{128, 128}));
  EXPECT_EQ(v3.num_nextn_predict_layers, 1);
  EXPECT_FALSE(v3.layer_has_experts(2));
  EXPECT_TRUE(v3.layer_has_experts(3));
  const ModelConfig kimi = read_config_folder(path / "Kimi-K2");
  EXPECT_EQ(kimi.moe.routed_scaling_factor, 2.827);
  EXPECT_EQ(kimi.rope.theta, 50000.0);
  const ModelConfig qwen = read_config_folder(path / "Qwen2-57B-A14B");
  EXPECT_EQ(qwen.moe.shared_expert_intermediate_size, 20480);
  EXPECT_TRUE(qwen.moe.shared_expert_gate);
  EXPECT_FALSE(read_config_folder(path / "GLM-4.5-Air").qk_norm);
}

TEST(HfConfig, NamesQuantizationThatIsNotSupported) {
  const Json json = Json::parse(
      R"({"model_type": "llama", "quantization_config": {"quant_method": "bitsandbytes"}})");
  try {
    read_hf_config(json, nullptr, "x/config.json");
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("bitsandbytes"), std::string::npos) << text;
    EXPECT_NE(text.find("expected fp8"), std::string::npos) << text;
  }
}

TEST(HfConfig, ReadsSprout) {
  const auto path = test_data("sprout");
  const ModelConfig got = read_config_folder(path);
  EXPECT_EQ(got.family->model_type(), "deepseek_v3");
  EXPECT_TRUE(got.tie_word_embeddings);
  EXPECT_EQ(got.num_nextn_predict_layers, 1);
  EXPECT_EQ(got.eos_token_ids, (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(got.bos_token_id, std::nullopt);
  EXPECT_EQ(got.temperature, 0.0);  // "do_sample": false
  EXPECT_EQ(got.head_dim, 96);
}

TEST(HfConfig, UsesTheDefaultsOfTransformers) {
  const ModelConfig llama = read_text(R"({"model_type": "llama"})");
  EXPECT_EQ(llama.hidden_size, 4096);
  EXPECT_EQ(llama.num_key_value_heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(read_text(R"({"model_type": "mistral"})").sliding_window, 4096);
  EXPECT_EQ(read_text(R"({"model_type": "mistral", "sliding_window": null})").sliding_window, 0);
  EXPECT_EQ(read_text(R"({"model_type": "mistral"})").num_key_value_heads, 8);
  EXPECT_EQ(read_text(R"({"model_type": "qwen3"})").head_dim, 128);
  EXPECT_EQ(read_text(R"({"model_type": "deepseek_v3"})").mla.q_lora_rank, 1536);
  EXPECT_EQ(read_text(R"({"model_type": "deepseek_v3", "q_lora_rank": null})").mla.q_lora_rank, 0);
  EXPECT_TRUE(read_text(R"({"model_type": "qwen2"})").attention_bias);
  const ModelConfig biased = read_text(R"({"model_type": "llama", "attention_bias": true})");
  EXPECT_TRUE(biased.attention_bias && biased.attention_output_bias);
}

// The text_config of published LLaVA checkpoints names only what differs from Llama's defaults.
TEST(HfConfig, UsesTheDefaultsOfLlamaForLlava) {
  const ModelConfig llava = read_text(R"({"model_type": "llava", "image_token_index": 32000,
      "text_config": {"max_position_embeddings": 4096, "model_type": "llama", "vocab_size": 32064},
      "vision_config": {"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
        "model_type": "clip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 24,
        "patch_size": 14}})");
  EXPECT_EQ(llava.hidden_size, 4096);
  EXPECT_EQ(llava.vocab_size, 32064);
  ASSERT_TRUE(llava.vision);
  EXPECT_EQ(llava.vision->hidden_size, 1024);
  EXPECT_EQ(llava.vision->feature_layer, -2);
}

TEST(HfConfig, ReadsTheSlidingWindowOnlyForFamiliesThatUseIt) {
  const std::string qwen = R"({"model_type": "qwen2", "num_hidden_layers": 30,)";
  EXPECT_EQ(read_text(qwen + R"("sliding_window": 64})").sliding_window, 0);
  const ModelConfig used = read_text(qwen + R"("sliding_window": 64, "use_sliding_window": true})");
  EXPECT_EQ(used.sliding_window, 64);
  EXPECT_EQ(used.max_window_layers, 28);
  EXPECT_EQ(read_text(qwen + R"("sliding_window": 64, "use_sliding_window": true,
                               "max_window_layers": 30})")
                .sliding_window,
            0);
  EXPECT_EQ(read_text(R"({"model_type": "llama", "sliding_window": 64})").sliding_window, 0);
}

TEST(HfConfig, ReadsBothRopeForms) {
  const std::string numbers = R"("factor": 4.0, "beta_fast": 16, "beta_slow": 2,
      "attention_factor": 1.25, "original_max_position_embeddings": 1024)";
  const ModelConfig classic = read_text(R"({"model_type": "qwen3", "rope_theta": 5e5,
      "rope_scaling": {"type": "yarn", )" +
                                        numbers + "}}");
  const ModelConfig newer = read_text(
      R"({"model_type": "qwen3", "rope_parameters": {"rope_theta": 5e5, "rope_type": "yarn", )" +
      numbers + "}}");
  EXPECT_EQ(classic, newer);
  EXPECT_EQ(classic.rope.theta, 5e5);
  EXPECT_EQ(classic.rope.kind, RopeKind::Yarn);
  EXPECT_EQ(classic.rope.attention_factor, 1.25);
  EXPECT_EQ(classic.rope.beta_fast, 16.0);
  EXPECT_EQ(classic.rope.original_max_position_embeddings, 1024);
  EXPECT_EQ(read_text(R"({"model_type": "glm4_moe", "head_dim": 128,
                         "rope_parameters": {"partial_rotary_factor": 0.25}})")
                .rotary_dim,
            32);
}

TEST(HfConfig, NamesUnsupportedFamilies) {
  EXPECT_EQ(config_error(R"({"model_type": "gpt2"})")
                .find("config.json: \"model_type\" is \"gpt2\", supported are: llama, mistral"),
            0);
  EXPECT_NE(config_error("{}").find("\"model_type\" is missing"), std::string::npos);
  EXPECT_NE(config_error("[]").find("expected an object"), std::string::npos);
  // A private name for a known class is fine.
  EXPECT_EQ(read_text(R"({"model_type": "my_own", "architectures": ["Qwen3ForCausalLM"]})").family,
            find_family("qwen3"));
}

TEST(HfConfig, ReportsAllBadValuesAtOnce) {
  const std::string error = config_error(R"({"model_type": "llama", "hidden_size": -3,
      "vocab_size": "many", "num_hidden_layers": 1.5, "rms_norm_eps": [], "rope_scaling":
      {"rope_type": "spiral"}, "eos_token_id": {}, "intermediate_size": 1e30})");
  EXPECT_EQ(error.find("config.json: "), 0);
  EXPECT_NE(error.find(R"("hidden_size" is -3, expected an integer from 1)"), std::string::npos);
  EXPECT_NE(error.find(R"("vocab_size" is "many")"), std::string::npos);
  EXPECT_NE(error.find(R"("num_hidden_layers" is 1.5)"), std::string::npos);
  EXPECT_NE(error.find(R"("rms_norm_eps" is [], expected a number)"), std::string::npos);
  EXPECT_NE(error.find(R"("rope_scaling.rope_type" is "spiral")"), std::string::npos);
  EXPECT_NE(error.find(R"("eos_token_id" is {})"), std::string::npos);
  EXPECT_NE(error.find(R"("intermediate_size" is 1e+30)"), std::string::npos);
}

TEST(HfConfig, RejectsInvalidShapes) {
  EXPECT_NE(config_error(R"({"model_type": "llama", "num_attention_heads": 3})").find("divisor"),
            std::string::npos);
  EXPECT_NE(config_error(R"({"model_type": "llama", "num_key_value_heads": 5})").find("divisor"),
            std::string::npos);
  EXPECT_NE(config_error(R"({"model_type": "mixtral", "num_experts_per_tok": 9})")
                .find(R"("num_experts_per_tok" is 9, expected an integer from 1 to 8)"),
            std::string::npos);
  EXPECT_NE(config_error(R"({"model_type": "deepseek_v3", "n_group": 7})").find("n_group"),
            std::string::npos);
  EXPECT_NE(config_error(R"({"model_type": "llama", "head_dim": 7})").find("rotary_dim"),
            std::string::npos);
  EXPECT_NE(
      config_error(R"({"model_type": "llama", "hidden_size": 1000000000000})").find("16777216"),
      std::string::npos);
}

}  // namespace
}  // namespace graft::models
