// llama.cpp's /completion and /infill without sockets.

#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/llamacpp/request.h"
#include "graft/server/llamacpp/response.h"

namespace graft::server::llamacpp {
namespace {

TEST(LlamaCppRequest, ReadsCompletions) {
  const Request request = read_completion(parse_body(
      R"({"prompt":"a","n_predict":5,"temperature":0.1,"seed":-1,"n_probs":2,"cache_prompt":true,
          "logit_bias":[[7,1.5],[8,false]],"repeat_last_n":-1,"mirostat":0,"stream":true,"id_slot":-1})"));
  EXPECT_EQ(std::get<std::string>(request.prompt), "a");
  const api::SamplingParams& params = request.sampling.params;
  EXPECT_EQ(params.max_tokens, 5);
  EXPECT_FALSE(params.seed);
  EXPECT_EQ(params.logprobs, 2);
  EXPECT_EQ(params.logit_bias,
            (std::vector<std::pair<api::TokenId, float>>{{7, 1.5F}, {8, -100.0F}}));
  EXPECT_TRUE(request.is_stream);
  EXPECT_FALSE(
      read_completion(parse_body(R"({"prompt":[1,2],"n_predict":-1})")).sampling.params.max_tokens);
}

TEST(LlamaCppRequest, RejectionsNameTheField) {
  const std::vector<std::pair<std::string, std::string>> rejected = {
      {R"("mirostat":2)", "mirostat"},
      {R"("samplers":["top_k","mirostat"])", "samplers"},
      {R"("samplers":["top_k","penalties"])", "samplers"},
      {R"("samplers":"kfypmt")", "samplers"},
      {R"("dynatemp_range":0.5)", "dynatemp_range"},
      {R"("n_keep":3)", "n_keep"},
      {R"("repeat_last_n":64)", "repeat_last_n"},
      {R"("tfs_z":0.5)", "tfs_z"},
      {R"("n_indent":-1)", "n_indent"},
      {R"("t_max_predict_ms":"1s")", "t_max_predict_ms"},
      {R"("t_max_prompt_ms":"1s")", "t_max_prompt_ms"},
      {R"("response_fields":[1])", "response_fields"},
      {R"("logit_bias":[["a",1]])", "logit_bias"},
      {R"("post_sampling_probs":true)", "post_sampling_probs"},
  };
  for (const auto& [more, param] : rejected) {
    try {
      read_completion(parse_body(R"({"prompt":"a",)" + more + "}"));
      ADD_FAILURE() << more << " was accepted";
    } catch (const ApiError& error) {
      EXPECT_EQ(error.param, param) << error.what();
    }
  }
  EXPECT_THROW(read_completion(parse_body(R"({"prompt":["a","b"]})")), ApiError);
}

TEST(LlamaCppRequest, ReadsInfill) {
  const Request request = read_infill(parse_body(
      R"({"input_prefix":"a","prompt":"b","input_suffix":"c","input_extra":[{"filename":"x","text":"y"}]})"));
  EXPECT_EQ(std::get<std::string>(request.prompt), "ab");
  EXPECT_EQ(request.suffix, "c");
  EXPECT_EQ(request.files[0].first, "x");
  EXPECT_THROW(read_infill(parse_body(R"({"input_extra":[{"filename":"x"}]})")), ApiError);
  EXPECT_THROW(read_infill(parse_body(R"({"input_extra":[3]})")), ApiError);
}

// As llama.vim sends them: for a suggestion, and to fill the cache.
TEST(LlamaCppRequest, ReadsThoseOfLlamaVim) {
  const Request suggest = read_infill(parse_body(
      R"({"id_slot":0,"input_prefix":"a","input_suffix":"b","prompt":"c","n_predict":128,"stop":[],
          "input_extra":[{"text":"d","time":[1,2],"filename":"e"}],"n_indent":4,"top_k":40,
          "top_p":0.9,"samplers":["top_k","top_p","infill"],"stream":false,"cache_prompt":true,
          "t_max_prompt_ms":500,"t_max_predict_ms":1000,
          "response_fields":["content","timings/prompt_n"]})"));
  const api::SamplingParams& params = suggest.sampling.params;
  using Step = api::SamplingStep;
  EXPECT_EQ(params.steps, (std::vector{Step::TopK, Step::TopP, Step::Infill}));
  EXPECT_EQ(params.temperature, 1);
  EXPECT_FALSE(suggest.sampling.default_temperature);
  EXPECT_EQ(params.min_indent, 4);
  EXPECT_EQ(params.max_line_ms, 1000);
  EXPECT_EQ(suggest.response_fields, (std::vector<std::string>{"content", "timings/prompt_n"}));
  EXPECT_FALSE(suggest.is_prompt_only);
  const Request fill = read_infill(parse_body(
      R"({"id_slot":0,"input_prefix":"","input_suffix":"","input_extra":[],"prompt":"",
          "n_predict":0,"temperature":0.0,"samplers":[],"stream":false,"cache_prompt":true,
          "t_max_prompt_ms":1,"t_max_predict_ms":1,"response_fields":[""]})"));
  EXPECT_TRUE(fill.is_prompt_only);
  EXPECT_EQ(fill.sampling.params.max_tokens, 1);
}

TEST(LlamaCppRequest, SamplersAreStepsInTheirOrder) {
  const auto params_of = [](const std::string& more) {
    return read_completion(parse_body(R"({"prompt":"a",)" + more + "}")).sampling;
  };
  using Step = api::SamplingStep;
  EXPECT_EQ(params_of(R"("samplers":["penalties","dry","min_p","temperature"])").params.steps,
            (std::vector{Step::MinP, Step::Temperature}));
  // What is not named is off.
  const openai::Sampling some = params_of(
      R"("samplers":["top_k","top_p"],"min_p":0.5,"typical_p":0.5,"repeat_penalty":2,"temperature":0.5)");
  EXPECT_FALSE(some.params.steps);  // the usual order
  EXPECT_EQ(some.params.min_p, 0);
  EXPECT_EQ(some.params.typical_p, 1);
  EXPECT_EQ(some.params.temperature, 1);
  EXPECT_EQ(some.params.repetition_penalty, 1);
  EXPECT_FALSE(some.default_min_p || some.default_repetition_penalty);
  EXPECT_TRUE(some.default_top_p);
  const openai::Sampling kept = params_of(R"("samplers":["penalties","top_p"],"repeat_penalty":2)");
  EXPECT_EQ(kept.params.repetition_penalty, 2);
  // The most likely token is that in any order.
  EXPECT_FALSE(params_of(R"("samplers":["top_p","temperature"],"temperature":0)").params.steps);
  EXPECT_TRUE(params_of(R"("samplers":["top_p","temperature"],"temperature":0.5)").params.steps);
}

api::Update new_text(const std::string& text) {
  return {.tokens = {5}, .text = text, .num_prompt = 3};
}

api::Update last_text(const std::string& text) {
  api::Update update = new_text(text);
  update.finish = api::Finish{.reason = api::FinishReason::Stop, .stop_text = "END"};
  return update;
}

TEST(LlamaCppResponse, WritesOneObject) {
  CompletionWriter writer({.model = "m", .prompt = "p", .return_tokens = true});
  EXPECT_EQ(writer.append(0, new_text("a\n")), "");
  EXPECT_EQ(writer.append(0, last_text("b")), "");
  const Json json = Json::parse(
      writer.finish({.num_prompt = 3, .num_cached = 1, .num_output = 2, .decode_seconds = 0.5}));
  EXPECT_EQ(json["content"], "a\nb");
  EXPECT_EQ(json["tokens"], Json({5, 5}));
  EXPECT_EQ(json["stop"], true);
  EXPECT_EQ(json["stop_type"], "word");
  EXPECT_EQ(json["stopping_word"], "END");
  EXPECT_EQ(json["has_new_line"], true);
  EXPECT_EQ(json["tokens_evaluated"], 3);
  EXPECT_EQ(json["timings"]["prompt_n"], 2);
  EXPECT_EQ(json["timings"]["predicted_per_second"], 4);
}

TEST(LlamaCppResponse, WritesTheRequestedFields) {
  CompletionWriter writer({.model = "m",
                           .wants_logprobs = false,
                           .fields = {"content", "timings/prompt_n", "no/such", ""}});
  writer.append(0, last_text("b"));
  EXPECT_EQ(writer.finish({.num_prompt = 3}), R"({"content":"b","timings/prompt_n":3})");
  CompletionWriter nothing({.model = "m", .fields = {""}});
  nothing.append(0, last_text("b"));
  EXPECT_EQ(nothing.finish({}), "{}");
}

TEST(LlamaCppResponse, LeavesOutTheTokenOfAPromptAlone) {
  CompletionWriter writer({.model = "m", .return_tokens = true, .is_prompt_only = true});
  writer.append(0, last_text("b"));
  const Json json = Json::parse(writer.finish({.num_prompt = 3, .num_output = 1}));
  EXPECT_EQ(json["content"], "");
  EXPECT_EQ(json["tokens"], Json::array());
  EXPECT_EQ(json["tokens_predicted"], 0);
  EXPECT_EQ(json["timings"]["predicted_n"], 0);
}

TEST(LlamaCppResponse, WritesEvents) {
  CompletionWriter writer({.model = "m", .prompt = "p", .is_stream = true});
  const std::string first = writer.append(0, new_text("a"));
  EXPECT_TRUE(first.starts_with("data: ") && first.ends_with("\n\n"));
  EXPECT_EQ(Json::parse(first.substr(6))["content"], "a");
  EXPECT_EQ(Json::parse(first.substr(6))["stop"], false);
  EXPECT_EQ(writer.append(0, last_text("")), "");
  const Json last = Json::parse(writer.finish({.num_output = 1}).substr(6));
  EXPECT_EQ(last["stop"], true);
  EXPECT_EQ(last["content"], "");
}

}  // namespace
}  // namespace graft::server::llamacpp
