#include "graft/server/generation/request_limits.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "graft/server/api_error.h"

namespace graft::server {
namespace {

constexpr std::int64_t kContext = 4096;

std::string refusal(const RequestSize& size,
                    const api::SamplingParams& params,
                    const RequestLimits& limits = {}) {
  try {
    check_request(size, params, kContext, limits);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.what();
  }
  return {};
}

TEST(RequestLimits, CountsCopiesOfGreedySamplesAsAnswers) {
  const api::SamplingParams params = {.n = 128, .temperature = 0, .max_tokens = 4};
  EXPECT_EQ(refusal({.num_prompts = 16}, params), "");
  EXPECT_EQ(refusal({.num_prompts = 128}, params),
            "128 prompts x n 128 is 16384 answers, max per request 2048 (--max-answers)");
}

TEST(RequestLimits, BoundsOutputTokens) {
  const RequestLimits limits = {.max_output_tokens = 10'000};
  EXPECT_EQ(refusal({}, {.n = 2, .max_tokens = 4000}, limits), "");
  EXPECT_EQ(refusal({}, {.n = 3, .max_tokens = 4000}, limits),
            "1 prompt x n 3 x max_tokens 4000 is 12000 output tokens, max per request 10000 "
            "(--max-output-tokens)");
  const api::SamplingParams most = {.max_tokens = std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(refusal({}, most, {.max_output_tokens = 1}), "") << "one answer may fill the context";
}

TEST(RequestLimits, DividesTheTokensWhenMaxTokensIsUnset) {
  const RequestLimits limits = {.max_output_tokens = 10'000};
  const auto max_tokens = [&](std::int64_t n) {
    return check_request({}, {.n = n}, kContext, limits);
  };
  EXPECT_EQ(max_tokens(1), std::nullopt);
  EXPECT_EQ(max_tokens(2), std::nullopt);
  EXPECT_EQ(max_tokens(4), 2500);
  EXPECT_EQ(check_request({}, {.n = 4, .max_tokens = 10}, kContext, limits), 10);
}

TEST(RequestLimits, BoundsTheBytesOfAResponse) {
  const RequestLimits limits = {.max_response_bytes = 1U << 20U};
  const api::SamplingParams params = {.n = 8, .max_tokens = 1000, .logprobs = 20};
  const std::string refused = refusal({}, params, limits);
  EXPECT_NE(refused.find("needs about 10784000 bytes, max 1048576 (--max-response-mib)"),
            std::string::npos)
      << refused;
  EXPECT_EQ(refusal({.is_stream = true}, params, limits), "") << "streams have back-pressure";
  EXPECT_EQ(refusal({}, {.n = 8, .max_tokens = 1000}, limits), "");
}

TEST(RequestLimits, BoundsEchoedPromptsAndParameters) {
  const RequestLimits limits = {.max_response_bytes = 1U << 20U};
  EXPECT_NE(refusal({.echo_bytes = 200'000, .is_stream = true}, {.n = 8}, limits), "");
  EXPECT_NE(refusal({.num_echo_logprobs = 2000}, {.n = 8, .logprobs = 0}, limits), "");
  EXPECT_EQ(refusal({.echo_bytes = 100'000}, {.n = 8}, limits), "");
  const api::SamplingParams many = {.n = 128, .allowed_token_ids = std::vector<api::TokenId>(9999)};
  EXPECT_NE(refusal({}, many, limits), "");
}

}  // namespace
}  // namespace graft::server
