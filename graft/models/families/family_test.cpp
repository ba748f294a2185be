#include "graft/models/families/family.h"

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/formats/pre_tokenizers.h"

namespace graft::models {
namespace {

TEST(Families, HaveUniqueNames) {
  std::set<std::string_view> types;
  std::set<std::string_view> classes;
  for (const Family* family : families()) {
    for (const std::string_view type : family->model_types) {
      if (type.empty()) continue;
      EXPECT_TRUE(types.insert(type).second) << type;
    }
    // Kimi-K2 has DeepSeek-V3's class.
    const bool is_own = family->model_type() != "kimi_k2";
    EXPECT_EQ(classes.insert(family->hf_class).second, is_own) << family->hf_class;
    EXPECT_FALSE(family->gguf.architecture.empty()) << family->model_type();
    EXPECT_EQ(find_family(family->model_type()), family);
  }
  const std::vector<std::string> shared = {"DeepseekV3ForCausalLM"};
  EXPECT_EQ(find_family_of_class(shared), find_family("deepseek_v3"));
  EXPECT_EQ(find_family("gpt2"), nullptr);
  EXPECT_EQ(find_family(""), nullptr);
}

TEST(Families, ErrorsListEveryFamily) {
  const std::string types = supported_model_types();
  EXPECT_EQ(types.find("llama, mistral, mixtral, qwen2, qwen2_moe"), 0U) << types;
  const std::string gguf = supported_gguf_architectures();
  EXPECT_EQ(gguf.find("llama qwen2 qwen2moe"), 0U) << gguf;
  for (const Family* family : families()) {
    EXPECT_NE(types.find(family->model_type()), std::string::npos) << family->model_type();
    EXPECT_NE(gguf.find(family->gguf.architecture), std::string::npos) << family->model_type();
  }
}

TEST(Families, GgufRoundTripKeepsTheFamily) {
  for (const Family* family : families()) {
    const std::string_view written = family->gguf.written_as;
    if (written.empty()) continue;
    ASSERT_NE(find_family(written), nullptr) << written;
    EXPECT_EQ(find_family(written)->gguf.architecture, family->gguf.architecture);
  }
}

// Names of a vocabulary stand for the same definition in every family.
TEST(Families, PreTokenizersAreDefined) {
  std::map<std::string_view, std::string_view> definitions;
  for (const formats::PreTokenizerName& row : pre_tokenizer_names()) {
    const auto [entry, is_new] = definitions.emplace(row.name, row.definition);
    EXPECT_EQ(entry->second, row.definition) << row.name;
    const auto* found = formats::find_named_pre_tokenizer(row.name, pre_tokenizer_names());
    ASSERT_NE(found, nullptr) << row.name;
    EXPECT_EQ(found->name, row.definition);
  }
  EXPECT_EQ(definitions["chatglm-bpe"], "glm4");
  EXPECT_EQ(definitions["deepseek-r1-qwen"], "qwen2");
  const auto* general = formats::find_named_pre_tokenizer("default", pre_tokenizer_names());
  ASSERT_NE(general, nullptr);
  EXPECT_EQ(general->name, "gpt-2");
}

// KTransformers' replacement classes: 63 in all, of which these belong to one family.
TEST(Families, ClassesOfKTransformersAreUnique) {
  std::set<std::string_view> names;
  for (const Family* family : families()) {
    for (const plan::ClassAlias& alias : family->ktransformers_classes) {
      EXPECT_TRUE(names.insert(alias.name).second) << alias.name;
      EXPECT_EQ(plan::find_class_alias(alias.name), nullptr) << alias.name;
    }
  }
  EXPECT_EQ(names.size(), 37U);
}

TEST(Families, ClassesDeriveFromTheirBases) {
  std::vector<plan::ClassBase> bases;
  std::set<std::string_view> derived;
  for (const Family* family : families()) {
    for (const plan::ClassBase& row : family->class_bases) {
      EXPECT_TRUE(derived.insert(row.derived).second) << row.derived;
      bases.push_back(row);
    }
  }
  EXPECT_EQ(bases.size(), 19U);
  const auto is_instance = [&](std::string_view class_name, std::string_view base) {
    return plan::is_instance(class_name, base, bases);
  };
  EXPECT_TRUE(is_instance("DeepseekV3YarnRotaryEmbedding",
                          "ktransformers.models.modeling_deepseek_v3.DeepseekV3RotaryEmbedding"));
  EXPECT_FALSE(is_instance("DeepseekV3RotaryEmbedding", "DeepseekV3YarnRotaryEmbedding"));
  EXPECT_FALSE(is_instance("DeepseekV3YarnRotaryEmbedding", "DeepseekV2RotaryEmbedding"));
  EXPECT_TRUE(is_instance("MixtralSdpaAttention", "MixtralAttention"));
  EXPECT_TRUE(is_instance("LlamaDynamicNTKScalingRotaryEmbedding", "LlamaRotaryEmbedding"));
  EXPECT_TRUE(is_instance("Qwen3MoeRotaryEmbedding", "Qwen2MoeRotaryEmbedding"));
}

// What llama.cpp's converter writes for byte-level BPE, and names that its loader knows beside
// them.
TEST(PreTokenizerNames, OfTheConverterAreKnown) {
  constexpr std::array<std::string_view, 86> kWritten = {"a.x-4.0",
                                                         "afmoe",
                                                         "bailingmoe",
                                                         "bailingmoe2",
                                                         "bloom",
                                                         "chameleon",
                                                         "chatglm-bpe",
                                                         "codeshell",
                                                         "cohere2moe",
                                                         "command-r",
                                                         "dbrx",
                                                         "deepseek-coder",
                                                         "deepseek-llm",
                                                         "deepseek-r1-qwen",
                                                         "deepseek-v3",
                                                         "default",
                                                         "exaone",
                                                         "exaone-moe",
                                                         "exaone4",
                                                         "f2llmv2",
                                                         "falcon",
                                                         "falcon-h1",
                                                         "falcon3",
                                                         "gemma4",
                                                         "gigachat",
                                                         "glm4",
                                                         "gpt-2",
                                                         "gpt-4o",
                                                         "gpt3-finnish",
                                                         "granite-docling",
                                                         "granite-embed-multi-311m",
                                                         "granite-embed-multi-97m",
                                                         "grok-2",
                                                         "hunyuan",
                                                         "hunyuan-dense",
                                                         "jais",
                                                         "jais-2",
                                                         "jina-de",
                                                         "jina-es",
                                                         "jina-v1-en",
                                                         "jina-v2-code",
                                                         "jina-v2-de",
                                                         "jina-v2-es",
                                                         "jina-v5-nano",
                                                         "joyai-llm",
                                                         "kanana2",
                                                         "kimi-k2",
                                                         "kormo",
                                                         "laguna",
                                                         "lfm2",
                                                         "llada-moe",
                                                         "llama-bpe",
                                                         "llama-v3",
                                                         "llama3",
                                                         "llama4",
                                                         "megrez",
                                                         "mellum",
                                                         "mellum2",
                                                         "midm-2.0",
                                                         "minerva-7b",
                                                         "minicpm5",
                                                         "minimax-m2",
                                                         "modern-bert",
                                                         "mpt",
                                                         "olmo",
                                                         "phi-2",
                                                         "pixtral",
                                                         "poro-chat",
                                                         "qwen2",
                                                         "qwen35",
                                                         "refact",
                                                         "roberta-bpe",
                                                         "sarvam-moe",
                                                         "seed-coder",
                                                         "smaug-bpe",
                                                         "smollm",
                                                         "solar-open",
                                                         "stablelm2",
                                                         "starcoder",
                                                         "superbpe",
                                                         "talkie",
                                                         "tekken",
                                                         "tiny_aya",
                                                         "trillion",
                                                         "viking",
                                                         "youtu"};
  for (const std::string_view name : kWritten) {
    EXPECT_NE(formats::find_named_pre_tokenizer(name, pre_tokenizer_names()), nullptr) << name;
  }
  EXPECT_EQ(formats::find_named_pre_tokenizer("no-such-name", pre_tokenizer_names()), nullptr);
}

}  // namespace
}  // namespace graft::models
