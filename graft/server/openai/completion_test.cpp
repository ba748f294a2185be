// /v1/completions and /v1/embeddings without sockets.

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/base64.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/openai/completion_request.h"
#include "graft/server/openai/completion_response.h"
#include "graft/server/openai/embedding_request.h"
#include "graft/server/openai/embeddings.h"
#include "graft/server/openai/tokenize_request.h"

namespace graft::server::openai {
namespace {

CompletionRequest read_completion(const std::string& body) {
  return read_completion_request(parse_body(body));
}

TEST(CompletionRequest, AcceptsPromptsInEveryForm) {
  EXPECT_EQ(read_completion(R"({"prompt":"a"})").prompts.size(), 1U);
  EXPECT_EQ(read_completion(R"({"prompt":["a","b"]})").prompts.size(), 2U);
  EXPECT_EQ(std::get<1>(read_completion(R"({"prompt":[1,2,3]})").prompts.at(0).at(0)).size(), 3U);
  EXPECT_EQ(read_completion(R"({"prompt":[[1,2],[3]]})").prompts.size(), 2U);
  const auto mixed = read_completion(R"({"prompt":[1,2,"a",3]})").prompts;
  ASSERT_EQ(mixed.size(), 1U);
  EXPECT_EQ(mixed[0],
            (PromptParts{std::vector<api::TokenId>{1, 2}, "a", std::vector<api::TokenId>{3}}));
  const auto several = read_completion(R"({"prompt":[["a",1],"b",[2]]})").prompts;
  ASSERT_EQ(several.size(), 3U);
  EXPECT_EQ(several[0].size(), 2U);
  EXPECT_EQ(std::get<0>(several[1].at(0)), "b");
  EXPECT_THROW(read_completion(R"({"prompt":["a",-1]})"), ApiError);
  EXPECT_THROW(read_completion(R"({"prompt":[["a",1],3]})"), ApiError);
  EXPECT_EQ(read_completion(R"({"prompt":"a"})").sampling.params.max_tokens, 16);
}

TEST(CompletionRequest, RejectionsNameTheField) {
  for (const auto& [body, param] : std::vector<std::pair<std::string, std::string>>{
           {R"({})", "prompt"},
           {R"({"prompt":[]})", "prompt"},
           {R"({"prompt":[1,true]})", "prompt"},
           {R"({"prompt":[[-1]]})", "prompt"},
           {R"({"prompt":{"a":1}})", "prompt"},
           {R"({"prompt":[1],"suffix":"b"})", "suffix"},
           {R"({"prompt":"a","suffix":"b","echo":true})", "suffix"},
           {R"({"prompt":"a","best_of":3})", "best_of"},
           {R"({"prompt":"a","max_tokens":0})", "max_tokens"},
           {R"({"prompt":"a","logprobs":21})", "logprobs"},
           {R"({"prompt":"a","echo":true,"logprobs":1,"stream":true})", "echo"}}) {
    try {
      read_completion(body);
      ADD_FAILURE() << body << " was accepted";
    } catch (const ApiError& error) {
      EXPECT_EQ(error.param, param) << error.what();
    }
  }
}

TEST(CompletionRequest, MaxTokensZeroWithEchoReturnsThePrompt) {
  const CompletionRequest request =
      read_completion(R"({"prompt":"a","echo":true,"max_tokens":0,"logprobs":1})");
  EXPECT_TRUE(request.discard_output);
  EXPECT_EQ(request.sampling.params.max_tokens, 1);
  EXPECT_EQ(request.sampling.params.prompt_logprobs, 1);
}

TEST(CompletionRequest, PromptLogprobsAndEchoHaveOwnCounts) {
  const CompletionRequest request =
      read_completion(R"({"prompt":"a","echo":true,"logprobs":1,"prompt_logprobs":4})");
  EXPECT_EQ(request.prompt_logprobs, 4);
  EXPECT_EQ(request.sampling.params.prompt_logprobs, 4);
  EXPECT_FALSE(read_completion(R"({"prompt":"a","echo":true,"logprobs":1})").prompt_logprobs);
  EXPECT_THROW(read_completion(R"({"prompt":"a","prompt_logprobs":1,"stream":true})"), ApiError);
}

TEST(TokenizeRequest, ReadsTextsMessagesAndTokens) {
  const TokenizeRequest text =
      read_tokenize_request(parse_body(R"({"prompt":"a","add_special_tokens":false})"));
  EXPECT_EQ(text.text, "a");
  EXPECT_FALSE(text.add_special || text.conversation);
  EXPECT_EQ(read_tokenize_request(parse_body(R"({"content":"b"})")).text, "b");
  const TokenizeRequest chat =
      read_tokenize_request(parse_body(R"({"messages":[{"role":"user","content":"Hi"}]})"));
  ASSERT_TRUE(chat.conversation);
  EXPECT_EQ(chat.conversation->messages.size(), 1U);
  for (const char* body : {"{}", R"({"prompt":1})", R"({"prompt":"a","with_pieces":true})",
                           R"({"messages":[{"role":"user","content":"Hi"}],"prompt":"a"})"})
    EXPECT_THROW(read_tokenize_request(parse_body(body)), ApiError) << body;
  EXPECT_EQ(read_detokenize_request(parse_body(R"({"tokens":[1,2]})")),
            (std::vector<api::TokenId>{1, 2}));
  for (const char* body : {"{}", R"({"tokens":[-1]})", R"({"tokens":["a"]})"})
    EXPECT_THROW(read_detokenize_request(parse_body(body)), ApiError) << body;
}

api::Update last(const std::string& text, std::int64_t sample) {
  return {.id = {.request = 1, .sample = sample},
          .tokens = {1},
          .text = text,
          .finish = api::Finish{.reason = api::FinishReason::Stop}};
}

TEST(CompletionResponseWriter, NumbersChoicesPromptByPrompt) {
  CompletionResponseWriter writer({.id = "cmpl-1", .created = 7, .model = "m"},
                                  {.echoes = {"p", "q"}, .num_samples = 2, .num_prompts = 2});
  writer.append(1, last("d", 1));
  writer.append(0, last("a", 0));
  writer.append(0, last("b", 1));
  writer.append(1, last("c", 0));
  const Json json = Json::parse(writer.finish({}));
  std::string text;
  for (const Json& choice : json["choices"])
    text += choice["text"].get<std::string>() + choice["index"].dump();
  EXPECT_EQ(text, "pa0pb1qc2qd3");
}

TEST(CompletionResponseWriter, Streams) {
  CompletionResponseWriter writer({.id = "cmpl-1"}, {.echoes = {"p"}, .is_stream = true});
  EXPECT_NE(writer.begin().find(R"("text":"p")"), std::string::npos);
  EXPECT_EQ(writer.append(0, {.tokens = {1}}), "") << "an update without text makes no event";
  EXPECT_NE(writer.append(0, last("x", 0)).find(R"("finish_reason":"stop")"), std::string::npos);
  EXPECT_EQ(writer.finish({}), "data: [DONE]\n\n");
}

TEST(Embeddings, ParsesRequests) {
  const auto read = [](const char* body) { return read_embedding_request(parse_body(body)); };
  const EmbeddingRequest request =
      read(R"({"model":"m","input":["a",[1,2]],"encoding_format":"base64","dimensions":8})");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.input.size(), 2U);
  EXPECT_TRUE(request.is_base64);
  EXPECT_EQ(request.dimensions, 8);
  for (const char* body : {"{}", R"({"input":[]})", R"({"input":"a","encoding_format":"int8"})",
                           R"({"input":"a","dimensions":0})"})
    EXPECT_THROW(read(body), ApiError) << body;
}

TEST(Embeddings, EncodesFloatsAsBase64) {
  EXPECT_EQ(base64_floats({}), "");
  EXPECT_EQ(base64_floats({1.0F}), "AACAPw==");
  const auto bytes = base64_decode(base64_floats({1.0F, -2.5F, 3.25F}));
  ASSERT_TRUE(bytes);
  float third = 0;
  std::memcpy(&third, bytes->data() + 8, sizeof(third));
  EXPECT_EQ(third, 3.25F);
}

}  // namespace
}  // namespace graft::server::openai
