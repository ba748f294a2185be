#include "graft/server/clients/client_meter.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace graft::server {
namespace {

using Clock = ClientMeter::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A clock that tests advance.
Clock::time_point& test_time() {
  static Clock::time_point time = Clock::time_point(std::chrono::hours(100));
  return time;
}
Clock::time_point test_now() {
  return test_time();
}

const Client kOne = {.id = 1, .key = "aaa"};
const Client kTwo = {.id = 2, .key = "bbb"};

std::map<std::string, std::string> rate_headers(const ClientMeter::Admission& admission) {
  std::map<std::string, std::string> headers;
  for (const http::Header& header : admission.headers)
    headers[header.name] = header.value;
  return headers;
}

// The status of the error; 0: accepted.
int begin_status(ClientMeter& meter,
                 const Client& client,
                 std::int64_t answers,
                 std::int64_t tokens) {
  try {
    meter.begin(client, answers, tokens);
  } catch (const ApiError& error) {
    return error.status;
  }
  return 0;
}

TEST(ClientMeter, WithoutRatesEveryRequestIsAdmittedWithoutHeaders) {
  ClientMeter meter{LimitTable(), test_now};
  for (int i = 0; i < 10'000; ++i) {
    const ClientMeter::Admission admission = meter.admit(kOne);
    ASSERT_FALSE(admission.error);
    ASSERT_TRUE(admission.headers.empty());
  }
}

TEST(ClientMeter, LimitsRequestsPerMinute) {
  ClientMeter meter{LimitTable({.requests_per_minute = 120}), test_now};
  for (int i = 0; i < 120; ++i)
    ASSERT_FALSE(meter.admit(kOne).error) << i;
  const ClientMeter::Admission rejected = meter.admit(kOne);
  ASSERT_TRUE(rejected.error);
  EXPECT_EQ(rejected.error->status, 429);
  EXPECT_EQ(rejected.error->code, "rate_limit_exceeded");
  EXPECT_EQ(rejected.error->retry_after_seconds, 1);
  EXPECT_STREQ(rejected.error->what(),
               "too many requests: the limit of this client is 120 per minute "
               "(requests_per_minute); retry in 1 s");
  const auto headers = rate_headers(rejected);
  EXPECT_EQ(headers.at("x-ratelimit-limit-requests"), "120");
  EXPECT_EQ(headers.at("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(headers.at("x-ratelimit-reset-requests"), "1m0s");
  EXPECT_FALSE(headers.contains("x-ratelimit-limit-tokens"));
  EXPECT_FALSE(meter.admit(kTwo).error) << "another client";

  test_time() += milliseconds(499);
  EXPECT_TRUE(meter.admit(kOne).error);
  test_time() += milliseconds(1);
  EXPECT_FALSE(meter.admit(kOne).error) << "one request per half second";
  EXPECT_TRUE(meter.admit(kOne).error);
  test_time() += seconds(20);
  EXPECT_EQ(rate_headers(meter.admit(kOne)).at("x-ratelimit-remaining-requests"), "39");
  test_time() += seconds(60);
  EXPECT_EQ(rate_headers(meter.admit(kOne)).at("x-ratelimit-reset-requests"), "500ms");
}

TEST(ClientMeter, LimitsTokensPerMinute) {
  ClientMeter meter{LimitTable({.tokens_per_minute = 600}), test_now};
  const auto use = meter.begin(kOne, 1, 400);
  EXPECT_EQ(begin_status(meter, kOne, 1, 201), 429);
  EXPECT_EQ(rate_headers(meter.admit(kOne)).at("x-ratelimit-remaining-tokens"), "200");
  use->add_output(300);  // 100 above the limit
  const ClientMeter::Admission rejected = meter.admit(kOne);
  ASSERT_TRUE(rejected.error);
  EXPECT_EQ(rejected.error->retry_after_seconds, 11) << "100 tokens to drain and one to use";
  EXPECT_EQ(rate_headers(rejected).at("x-ratelimit-remaining-tokens"), "0");
  EXPECT_EQ(rate_headers(rejected).at("x-ratelimit-reset-tokens"), "1m10s");
  test_time() += seconds(11);
  EXPECT_FALSE(meter.admit(kOne).error);
  EXPECT_EQ(begin_status(meter, kOne, 1, 11), 429);
  EXPECT_EQ(begin_status(meter, kOne, 1, 10), 0);
  // A prompt longer than the limit needs all of it.
  EXPECT_EQ(begin_status(meter, kOne, 1, 1000), 429);
  test_time() += seconds(60);
  EXPECT_EQ(begin_status(meter, kOne, 1, 1000), 0);
  test_time() += seconds(60);
  EXPECT_EQ(begin_status(meter, kOne, 1, 201), 429) << "400 tokens above the limit were left";
}

TEST(ClientMeter, LimitsAnswersUntilTheyEnd) {
  ClientMeter meter{LimitTable({.concurrent_answers = 3}), test_now};
  auto two = meter.begin(kOne, 2, 10);
  EXPECT_EQ(begin_status(meter, kOne, 2, 10), 429);
  EXPECT_EQ(begin_status(meter, kTwo, 2, 10), 0);
  EXPECT_EQ(begin_status(meter, kOne, 4, 10), 400) << "can never run";
  const auto one = meter.begin(kOne, 1, 10);
  one->end();
  two.reset();
  EXPECT_EQ(begin_status(meter, kOne, 3, 10), 0);
}

TEST(ClientMeter, LimitsQueuedTokensUntilTheFirstToken) {
  ClientMeter meter{LimitTable({.queued_tokens = 100}), test_now};
  const auto first = meter.begin(kOne, 2, 80);
  EXPECT_EQ(begin_status(meter, kOne, 1, 21), 429);
  first->dequeue(30);
  EXPECT_EQ(begin_status(meter, kOne, 1, 50), 0);
  first->dequeue(500);  // never more than it reserved
  EXPECT_EQ(begin_status(meter, kOne, 1, 100), 0);
  EXPECT_EQ(begin_status(meter, kOne, 1, 101), 400);
}

TEST(ClientMeter, NewLimitsCountEarlierUse) {
  ClientMeter meter{LimitTable({.requests_per_minute = 10}), test_now};
  for (int i = 0; i < 10; ++i)
    meter.admit(kOne);
  EXPECT_TRUE(meter.admit(kOne).error);
  meter.set_limits(LimitTable({.requests_per_minute = 20}));
  EXPECT_FALSE(meter.admit(kOne).error);
  EXPECT_EQ(rate_headers(meter.admit(kOne)).at("x-ratelimit-remaining-requests"), "8");
  meter.set_limits(LimitTable());
  EXPECT_FALSE(meter.admit(kOne).error);
}

// Addresses are many: those that use nothing are forgotten, the others are not.
TEST(ClientMeter, ManyClientsDoNotResetOneInUse) {
  ClientMeter meter{LimitTable({.requests_per_minute = 1, .concurrent_answers = 1}), test_now};
  const auto answer = meter.begin({.id = 7}, 1, 1);
  meter.admit({.id = 8});
  for (std::uint64_t id = 100; id < 20'100; ++id)
    meter.admit({.id = id});
  EXPECT_TRUE(meter.admit({.id = 8}).error);
  test_time() += seconds(61);
  for (std::uint64_t id = 100'000; id < 140'000; ++id)
    meter.admit({.id = id});
  EXPECT_EQ(begin_status(meter, {.id = 7}, 1, 1), 429);
  EXPECT_FALSE(meter.admit({.id = 8}).error);
}

TEST(ClientMeter, CountsByKeyAndReason) {
  ClientMeter meter{LimitTable({.requests_per_minute = 2}), test_now};
  for (int i = 0; i < 3; ++i)
    meter.admit(kOne);
  meter.admit({.id = 3});
  meter.begin(kOne, 1, 40)->add_output(2);
  meter.count_rejected(kTwo, "queue_full");
  const std::string text = meter.metrics_text();
  for (const char* line :
       {"graft:requests_rejected_total{reason=\"requests_per_minute\"} 1\n",
        "graft:requests_rejected_total{reason=\"queue_full\"} 1\n",
        "graft:requests_rejected_total{reason=\"queued_tokens\"} 0\n",
        "graft:key_requests_total{key=\"aaa\"} 3\n",
        "graft:key_prompt_tokens_total{key=\"aaa\"} 40\n",
        "graft:key_output_tokens_total{key=\"aaa\"} 2\n",
        "graft:key_rejected_total{key=\"aaa\"} 1\n", "graft:key_rejected_total{key=\"bbb\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

}  // namespace
}  // namespace graft::server
