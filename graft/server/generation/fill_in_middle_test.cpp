#include "graft/server/generation/fill_in_middle.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/formats/tokenizer_data.h"
#include "graft/server/api_error.h"
#include "graft/testing/tokenizer.h"

namespace graft::server {
namespace {

tokenizer::Tokenizer tokenizer_with(const std::vector<std::string>& tokens) {
  formats::TokenizerData data = tokenizer::test::byte_level();
  for (const std::string& token : tokens) {
    data.tokens.push_back(token);
    data.types.push_back(formats::TokenType::Control);
  }
  return tokenizer::Tokenizer(data);
}

TEST(FillInMiddle, UsesTheTokensOfTheVocabulary) {
  const auto text_of = [](const tokenizer::Tokenizer& tokenizer, const FillInMiddle& input) {
    return tokenizer.decode(fill_prompt(tokenizer, input), true);
  };
  const auto qwen = tokenizer_with({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
                                    "<|file_sep|>", "<|repo_name|>", "<|fim_pad|>"});
  const std::string bos(qwen.token(*qwen.bos()));
  EXPECT_EQ(text_of(qwen, {.prefix = "a", .suffix = "b"}),
            bos + "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>");
  EXPECT_EQ(text_of(qwen, {.prefix = "a", .suffix = "b", .files = {{"x.c", "int x;"}}}),
            bos +
                "<|repo_name|>project\n<|file_sep|>x.c\nint x;<|file_sep|>filename\n"
                "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>");
  EXPECT_EQ(fill_stop_tokens(qwen).size(), 3U);
  // Tokens that the text spells are text.
  const auto ids = fill_prompt(qwen, {.prefix = "<|fim_middle|>", .suffix = ""});
  EXPECT_EQ(std::ranges::count(ids, *qwen.find("<|fim_middle|>")), 1);
  const auto codestral = tokenizer_with({"[PREFIX]", "[SUFFIX]"});
  EXPECT_EQ(text_of(codestral, {.prefix = "a", .suffix = "b"}), bos + "[SUFFIX]b[PREFIX]a");
}

TEST(FillInMiddle, NeedsSuchTokens) {
  const auto plain = tokenizer_with({});
  EXPECT_TRUE(fill_stop_tokens(plain).empty());
  try {
    fill_prompt(plain, {.prefix = "a", .suffix = "b"});
    ADD_FAILURE() << "a prompt without tokens";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, "suffix");
  }
  const auto without_files = tokenizer_with({"<fim_prefix>", "<fim_suffix>", "<fim_middle>"});
  EXPECT_THROW(fill_prompt(without_files, {.files = {{"x", "y"}}}), ApiError);
}

}  // namespace
}  // namespace graft::server
