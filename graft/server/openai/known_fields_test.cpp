#include "graft/server/openai/known_fields.h"

#include <string>

#include <gtest/gtest.h>

#include "graft/server/api_error.h"
#include "graft/server/openai/sampling.h"

namespace graft::server::openai {
namespace {

std::string error_of(const std::string& json) {
  const OrderedJson body = parse_body(json);
  try {
    check_known(Fields(body), {"prompt", "echo"});
  } catch (const ApiError& error) {
    return error.what();
  }
  return "";
}

// Features that do not exist, in every spelling; with the value that asks for nothing they pass.
TEST(KnownFields, FeaturesAreRefusedUnlessTheyAreOff) {
  struct Case {
    const char* name;
    const char* on;
    const char* off;
  };
  constexpr Case kCases[] = {
      {"best_of_all", "1", "null"},
      {"mirostat", "1", "0"},
      {"tfs_z", "0.5", "1"},
      {"repeat_last_n", "64", "-1"},
      {"t_max_predict_ms", "100", "-1"},
      {"n_keep", "4", "0"},
      {"lora_path", R"("/adapter")", R"("")"},
      {"top_n_sigma", "1", "-1"},
      {"length_penalty", "2", "1.0"},
      {"use_beam_search", "true", "false"},
      {"structural_tag", R"("x")", R"("")"},
      {"thinking_token_budget", "0", "-1"},
      {"request_id", R"("a")", "null"},
      {"mm_processor_kwargs", R"({"a":1})", "{}"},
      {"return_token_ids", "true", "false"},
      {"timings_per_token", "true", "false"},
      {"xtc_probability", "0.1", "0"},
      {"dynatemp_range", "0.5", "0.0"},
  };
  for (const Case& each : kCases) {
    const std::string name = each.name;
    EXPECT_EQ(error_of("{\"" + name + "\":" + each.on + "}").rfind(name + ": ", 0), 0U) << name;
    EXPECT_EQ(error_of("{\"" + name + "\":" + each.off + "}"), "");
  }
  EXPECT_EQ(error_of(R"({"n_keep":4})"),
            "n_keep: is not supported: the start of a prompt is never dropped");
  EXPECT_EQ(error_of(R"({"temprature":1})"), "temprature: is not a field of this request");
}

TEST(KnownFields, OthersPass) {
  EXPECT_EQ(error_of(R"({"prompt":"a","echo":true,"temperature":1,"guided_json":{},"user":"u",
    "metadata":{"a":1},"service_tier":"flex","cache_prompt":false,"mirostat_tau":5,
    "dry_base":1.75,"unknown":null})"),
            "");
}

// read_sampling() must not read a field that is refused here.
TEST(KnownFields, SamplingParametersAreKnown) {
  const char* body = R"({"temperature":1,"top_p":1,"top_k":1,"min_p":0,"typical_p":1,
    "presence_penalty":0,"frequency_penalty":0,"repetition_penalty":1,"repeat_penalty":1,"samplers":[],"n":1,
    "seed":1,"speculate":"off","stop":[],"logit_bias":{},"bad_words":[],"min_tokens":0,"ignore_eos":false,
    "stop_token_ids":[],"allowed_token_ids":[],"skip_special_tokens":true,
    "include_stop_str_in_output":false,"response_format":{"type":"text"},"structured_outputs":{},
    "guided_json":{},"guided_regex":"","guided_choice":[],"guided_grammar":"","json_schema":{},
    "grammar":"","regex":""})";
  EXPECT_EQ(error_of(body), "");
  const OrderedJson json = parse_body(body);
  EXPECT_NO_THROW(read_sampling(Fields(json)));
}

}  // namespace
}  // namespace graft::server::openai
