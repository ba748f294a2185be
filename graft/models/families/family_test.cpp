#include "graft/models/families/family.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

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
    EXPECT_TRUE(classes.insert(family->hf_class).second) << family->hf_class;
    EXPECT_FALSE(family->gguf.architecture.empty()) << family->model_type();
    EXPECT_EQ(find_family(family->model_type()), family);
  }
  EXPECT_EQ(find_family("kimi_k2"), find_family("deepseek_v3"));
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

}  // namespace
}  // namespace graft::models
