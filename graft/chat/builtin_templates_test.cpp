#include "graft/chat/builtin_templates.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"

namespace graft::chat {
namespace {

struct Expected {
  const char* name;
  const char* text;
};

// From the documentation of each family, for a system prompt and two turns.
const Expected kExpected[] = {
    {"chatml",
     "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
     "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
     "<|im_start|>assistant\n"},
    {"qwen3",
     "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
     "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
     "<|im_start|>assistant\n"},
    {"llama2",
     "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Bye [/INST]"},
    {"llama3",
     "<s><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"mistral", "<s>[INST] Be kind.\n\nHi [/INST] Hello</s>[INST] Bye [/INST]"},
    {"gemma",
     "<s><start_of_turn>user\nBe "
     "kind.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
     "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"},
    {"phi3",
     "<|system|>\nBe kind.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello<|end|>\n"
     "<|user|>\nBye<|end|>\n<|assistant|>\n"},
    {"phi4",
     "<|im_start|>system<|im_sep|>Be kind.<|im_end|><|im_start|>user<|im_sep|>Hi<|im_end|>"
     "<|im_start|>assistant<|im_sep|>Hello<|im_end|><|im_start|>user<|im_sep|>Bye<|im_end|>"
     "<|im_start|>assistant<|im_sep|>"},
    {"kimi-k2",
     "<|im_system|>system<|im_middle|>Be kind.<|im_end|><|im_user|>user<|im_middle|>Hi<|im_end|>"
     "<|im_assistant|>assistant<|im_middle|>Hello<|im_end|><|im_user|>user<|im_middle|>Bye"
     "<|im_end|><|im_assistant|>assistant<|im_middle|>"},
    {"zephyr",
     "<|system|>\nBe kind.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello</s>\n<|user|>\nBye</s>\n"
     "<|assistant|>\n"},
    {"minimax-m2",
     "]~!b[]~b]system\nBe kind.[e~[\n]~b]user\nHi[e~[\n]~b]ai\nHello[e~[\n]~b]user\nBye[e~[\n"
     "]~b]ai\n<think>\n"},
    {"deepseek-v3", "<s>Be kind.<｜User｜>Hi<｜Assistant｜>Hello</s><｜User｜>Bye<｜Assistant｜>"},
    {"deepseek-v3.2",
     "<s>Be kind.<｜User｜>Hi<｜Assistant｜></think>Hello</s><｜User｜>Bye<｜Assistant｜></think>"},
    {"glm",
     "[gMASK]<sop><|system|>\nBe kind.<|user|>\nHi<|assistant|>\n<think></think>\nHello"
     "<|user|>\nBye<|assistant|>"},
    {"llama4",
     "<s><|header_start|>system<|header_end|>\n\nBe kind.<|eot|>"
     "<|header_start|>user<|header_end|>\n\nHi<|eot|>"
     "<|header_start|>assistant<|header_end|>\n\nHello<|eot|>"
     "<|header_start|>user<|header_end|>\n\nBye<|eot|><|header_start|>assistant<|header_end|>\n\n"},
    {"harmony",
     "<|start|>system<|message|>Reasoning: medium\n\n# Valid channels: analysis, commentary, "
     "final. "
     "Channel must be included for every message.<|end|><|start|>developer<|message|># "
     "Instructions\n\nBe kind.<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant"
     "<|channel|>final<|message|>Hello<|end|><|start|>user<|message|>Bye<|end|><|start|>assistant"},
};

RenderInput conversation() {
  RenderInput input;
  input.messages = parse_ordered_json(
      R"([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"},
          {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}])",
      "messages");
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  return input;
}

TEST(BuiltinTemplates, MatchTheFormatOfTheirFamily) {
  EXPECT_EQ(std::size(kExpected), builtin_templates().size());
  for (const Expected& row : kExpected) {
    const SelectedTemplate selected = select_template({}, row.name);
    EXPECT_EQ(selected.warning, "");
    EXPECT_EQ(selected.chat_template.render(conversation()), row.text) << row.name;
    EXPECT_FALSE(selected.chat_template.reads_content_parts()) << row.name;
  }
}

TEST(BuiltinTemplates, RejectTools) {
  RenderInput input = conversation();
  input.tools = OrderedJson::array({OrderedJson::object()});
  for (const BuiltinTemplate& row : builtin_templates())
    EXPECT_THROW(ChatTemplate(row.source, "t").render(input), Error) << row.name;
}

TEST(BuiltinTemplates, ModelTemplateOverridesChatml) {
  formats::TokenizerData data;
  const SelectedTemplate fallback = select_template(data, "");
  EXPECT_NE(fallback.warning.find("no chat template"), std::string::npos);
  EXPECT_TRUE(fallback.chat_template.render(conversation()).starts_with("<|im_start|>system"));
  data.chat_template = "own";
  EXPECT_EQ(select_template(data, "").chat_template.render({}), "own");
  EXPECT_EQ(select_template(data, "").warning, "");
  EXPECT_NE(select_template(data, "phi3").chat_template.render({}), "own");
  EXPECT_THROW(select_template(data, "no-such-template"), Error);
}

TEST(BuiltinTemplates, ATokenizerConfigIsATemplateFile) {
  const TempDir folder;
  const std::string file = folder / "tokenizer_config.json";
  const auto rendered = [&](const char* json) {
    std::ofstream(file) << json;
    return select_template({}, file).chat_template.render({});
  };
  EXPECT_EQ(rendered(R"({"chat_template": "one"})"), "one");
  EXPECT_EQ(rendered(R"({"chat_template": [{"name": "tools", "template": "t"},
                                           {"name": "default", "template": "two"}]})"),
            "two");
  EXPECT_THROW(rendered(R"({"chat_template": 5})"), Error);
  EXPECT_THROW(rendered("[]"), Error);
}

TEST(BuiltinTemplates, AModelWithoutATemplateUsesThatOfItsFamily) {
  const formats::ChatTraits family = {.builtin_template = "phi3"};
  const SelectedTemplate fallback = select_template({}, "", family);
  EXPECT_NE(fallback.warning.find("built-in template phi3"), std::string::npos);
  EXPECT_TRUE(fallback.chat_template.render(conversation()).starts_with("<|system|>"));
}

TEST(BuiltinTemplates, ATokenSelectsTheTemplateOfAMemberOfTheFamily) {
  const formats::ChatTraits family = {.builtin_template = "phi3",
                                      .marked_template = {"<|im_sep|>", "phi4"}};
  formats::TokenizerData data;
  data.tokens = {"a", "<|im_sep|>"};
  EXPECT_NE(select_template(data, "", family).warning.find("built-in template phi4"),
            std::string::npos);
  data.tokens = {"a", "<|end|>"};
  EXPECT_NE(select_template(data, "", family).warning.find("built-in template phi3"),
            std::string::npos);
}

TEST(BuiltinTemplates, KimiHasADefaultSystemPrompt) {
  RenderInput input = conversation();
  input.messages.erase(0);
  EXPECT_TRUE(select_template({}, "kimi-k2")
                  .chat_template.render(input)
                  .starts_with("<|im_system|>system<|im_middle|>You are Kimi, an AI assistant "
                               "created by Moonshot AI.<|im_end|><|im_user|>user<|im_middle|>Hi"));
}

TEST(BuiltinTemplates, WarnWhenTheModelTemplateLacksThePrefixOfItsFamily) {
  const formats::ChatTraits family = {.prefix = {.text = "[gMASK]<sop>", .token = "<sop>"}};
  formats::TokenizerData data;
  data.chat_template = "{{ x }}";
  EXPECT_EQ(select_template(data, "", family).warning, "");
  data.tokens = {"a", "[gMASK]", "<sop>"};
  EXPECT_EQ(select_template(data, "").warning, "");
  EXPECT_NE(select_template(data, "", family).warning.find("[gMASK]<sop>"), std::string::npos);
  data.chat_template = "{{ bos_token }}<sop>{{ x }}";
  EXPECT_EQ(select_template(data, "", family).warning, "");
}

TEST(BuiltinTemplates, SpecialTokensAreReadFromTheVocabulary) {
  formats::TokenizerData data;
  data.tokens = {"<pad>", "<s>", "</s>"};
  data.bos_id = 1;
  data.eos_id = 7;  // out of range
  data.pad_id = 0;
  RenderInput input;
  set_special_tokens(input, data);
  EXPECT_EQ(input.bos_token, "<s>");
  EXPECT_FALSE(input.eos_token.has_value());
  EXPECT_EQ(input.extra["pad_token"], "<pad>");
  EXPECT_FALSE(input.extra.contains("unk_token"));
}

}  // namespace
}  // namespace graft::chat
