// Models on devices that are none: which part of the logits a step asks for changes no token, and a
// device that fails ends what runs and nothing else.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/engine/engine.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"

namespace graft::engine {
namespace {

using models::OpenModel;
using ops::testing::test_bytes_out;
using ops::testing::test_fault;
using ops::testing::test_memory;

constexpr const char* kOnTheProcessor =
    "- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: cpu}}}\n";
constexpr const char* kOnTheDevice =
    "- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: \"cuda:0\"}}}\n";
constexpr const char* kExpertsOnTheProcessor = R"yaml(
- match: {name: "[.]experts$"}
  replace: {class: experts, kwargs: {device: cpu, out_device: "cuda:0"}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";
constexpr const char* kHeadOnTheProcessor = R"yaml(
- match: {name: "^lm_head$"}
  replace: {class: default, kwargs: {device: cpu}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

struct End {
  std::vector<TokenId> tokens;
  std::optional<Finish> finish;
};
using Ends = std::map<SequenceId, End>;

class OnDevices : public testing::Test {
 protected:
  void TearDown() override {
    test_fault() = {};
    test_memory().set_capacity(std::uint64_t{1} << 30U);
  }

  static std::filesystem::path folder() { return golden_checkpoint("deepseek-v3"); }
  static models::OpenOptions options(const char* rules) {
    models::OpenOptions options;
    options.rules = rules;
    options.machine.num_gpus = 1;
    options.operators = ops::testing::with_test_devices;
    options.num_threads = 1;  // thousands of tiny loops: more would wait for each other
    return options;
  }
  static EngineConfig config() {
    EngineConfig config;
    config.max_num_batched_tokens = 32;
    config.max_num_seqs = 12;
    config.max_model_len = 100;
    config.num_kvcache_blocks = 60;
    config.enable_prefix_caching = false;
    return config;
  }
  static Request request(TokenId first, const SamplingParams& params) {
    Request request;
    for (TokenId i = 0; i < 5; ++i)
      request.prompt.push_back((first * 31 + i * 7) % 250);
    request.params = params;
    request.params.seed = static_cast<std::uint64_t>(first);
    request.params.ignore_eos = true;
    if (!request.params.max_tokens) request.params.max_tokens = 10;
    return request;
  }
  static SamplingParams greedy() {
    SamplingParams params;
    params.temperature = 0;
    return params;
  }
  static SamplingParams top_k(std::int64_t k) {
    SamplingParams params;
    params.top_k = k;
    return params;
  }

  static void take(const std::vector<Update>& updates, Ends& ends) {
    for (const Update& update : updates) {
      End& end = ends[update.id];
      EXPECT_FALSE(end.finish) << "an update after the end";
      end.tokens.insert(end.tokens.end(), update.tokens.begin(), update.tokens.end());
      end.finish = update.finish;
    }
  }
  // Until nothing is left to do, which must come.
  static Ends run(Engine& engine, const std::vector<Request>& requests) {
    for (const Request& each : requests)
      engine.add(each);
    Ends ends;
    for (int step = 0; engine.has_work() && step < 1000; ++step)
      take(engine.step(), ends);
    EXPECT_FALSE(engine.has_work());
    EXPECT_EQ(engine.stats().blocks.num_used, 0);
    for (const auto& [id, end] : ends)
      EXPECT_TRUE(end.finish) << "request " << id.request << " never ended";
    return ends;
  }
  static std::vector<std::vector<TokenId>> tokens_of(OpenModel& open,
                                                     const std::vector<Request>& requests) {
    Engine engine(open, nullptr, config());
    std::vector<std::vector<TokenId>> tokens;
    test_bytes_out() = 0;
    for (const auto& [id, end] : run(engine, requests))
      tokens.push_back(end.tokens);
    return tokens;
  }
};

struct Placed {
  const char* name;
  const char* rules;
};

class EngineDevices : public OnDevices, public testing::WithParamInterface<Placed> {
 protected:
  static models::OpenOptions placed() { return options(GetParam().rules); }
};

// Of different lengths: the company changes from step to step, and what it wants with it.
std::vector<Request> mixed(std::vector<Request> requests) {
  std::int64_t length = 3;
  for (Request& request : requests)
    request.params.max_tokens = length += 2;
  return requests;
}

TEST_P(EngineDevices, WhatAStepAsksForChangesNoToken) {
  SamplingParams narrow = top_k(30);
  narrow.top_p = 0.8;
  narrow.min_p = 0.01;
  SamplingParams typical = top_k(40);
  typical.typical_p = 0.7;
  typical.temperature = 1.7;
  SamplingParams samples = top_k(3);
  samples.n = 6;  // ten sequences: a size that passes are brought to
  SamplingParams open_ended;
  SamplingParams penalties = greedy();
  penalties.repetition_penalty = 1.3;
  SamplingParams logprobs = greedy();
  logprobs.logprobs = 2;
  SamplingParams prompt = top_k(4);
  prompt.prompt_logprobs = 1;
  SamplingParams late = greedy();
  late.min_tokens = 2;
  const std::vector<std::vector<Request>> workloads = {
      mixed({request(1, greedy()), request(2, greedy()), request(3, greedy())}),
      mixed({request(4, greedy()), request(5, top_k(5)), request(6, narrow), request(7, typical),
             request(8, samples)}),
      mixed({request(9, prompt), request(10, logprobs), request(11, late), request(12, open_ended),
             request(13, penalties), request(14, top_k(100)), request(15, narrow),
             request(16, greedy())})};
  OpenModel here(folder(), options(kOnTheProcessor));
  OpenModel there(folder(), placed());
  for (const std::vector<Request>& requests : workloads)
    EXPECT_EQ(tokens_of(there, requests), tokens_of(here, requests));
}

// Passes of the same size that want something else, in one engine: what was recorded for one is of
// no use to the other.
TEST_P(EngineDevices, RecordedPassesGiveWhatIsWanted) {
  SamplingParams logprobs = greedy();
  logprobs.logprobs = 1;
  OpenModel here(folder(), options(kOnTheProcessor));
  OpenModel there(folder(), placed());
  Engine want(here, nullptr, config());
  Engine got(there, nullptr, config());
  for (const SamplingParams& params :
       {greedy(), top_k(5), logprobs, top_k(40), top_k(6), greedy()}) {
    const std::vector<Request> three = {request(1, params), request(2, params), request(3, params)};
    const Ends wanted = run(want, three);
    for (const auto& [id, end] : run(got, three))
      EXPECT_EQ(end.tokens, wanted.at(id).tokens);
  }
}

TEST_P(EngineDevices, OnlyWhatIsNeededIsCopied) {
  OpenModel open(folder(), placed());
  const std::vector<Request> best = {request(1, greedy()), request(2, greedy())};
  const std::vector<Request> few = {request(1, greedy()), request(2, top_k(9))};
  std::vector<Request> all = best;
  all.back().params.logprobs = 0;
  tokens_of(open, best);
  const std::size_t least = test_bytes_out();
  tokens_of(open, few);
  const std::size_t more = test_bytes_out();
  tokens_of(open, all);
  const std::size_t most = test_bytes_out();
  // Twenty tokens, chosen in rows of one candidate, of 16, or of all.
  if (GetParam().rules == kHeadOnTheProcessor) {
    EXPECT_EQ(least, most);
    EXPECT_EQ(more, most);
  } else {
    const std::size_t row = static_cast<std::size_t>(open.model().vocab_size()) * sizeof(float);
    EXPECT_EQ(more - least, 20 * 15 * 2 * sizeof(float));
    EXPECT_EQ(most - least, 20 * (row - 2 * sizeof(float)));
  }
}

// Whatever is asked when the device fails: what runs ends with its words, once; the next request is
// answered as if nothing had been.
TEST_P(EngineDevices, AFailureEndsWhatRunsAndNothingElse) {
  OpenModel open(folder(), placed());
  const std::vector<Request> two = {request(1, greedy()), request(2, top_k(9))};
  const auto want = tokens_of(open, two);
  Engine engine(open, nullptr, config());
  std::int64_t num_failures = 0;
  std::int64_t num_untouched = 0;
  for (std::int64_t n = 1; num_untouched == 0; n += 1 + n / 12) {
    SCOPED_TRACE(n);
    test_fault() = {.countdown = n};
    for (const auto& [id, end] : run(engine, two)) {
      if (end.finish->reason == FinishReason::Length) {
        ++num_untouched;
        continue;
      }
      ++num_failures;
      EXPECT_EQ(end.finish->reason, FinishReason::Error);
      EXPECT_EQ(end.finish->message, "cuda:0: broken for a test");
    }
    test_fault() = {};
    std::vector<std::vector<TokenId>> tokens;
    for (const auto& [id, end] : run(engine, two))
      tokens.push_back(end.tokens);
    ASSERT_EQ(tokens, want);
  }
  EXPECT_GT(num_failures, 60);
}

TEST_P(EngineDevices, ADeviceThatStaysBrokenEndsEveryRequest) {
  OpenModel open(folder(), placed());
  EngineConfig one_seat = config();
  one_seat.max_num_seqs = 1;
  Engine engine(open, nullptr, one_seat);
  test_fault() = {.countdown = 200, .is_lasting = true};
  const Ends ends = run(engine, {request(1, greedy()), request(2, greedy()), request(3, top_k(2))});
  EXPECT_EQ(ends.size(), 3U);
  for (const auto& [id, end] : ends) {
    EXPECT_EQ(end.finish->reason, FinishReason::Error);
    EXPECT_EQ(end.finish->message, "cuda:0: broken for a test");
  }
  EXPECT_THROW(engine.embed({1, 2, 3}, Pooling::Mean), Failure);
  EXPECT_EQ(engine.stats().blocks.num_used, 0);
}

std::string test_name(const testing::TestParamInfo<Placed>& placed) {
  return placed.param.name;
}

INSTANTIATE_TEST_SUITE_P(Rules,
                         EngineDevices,
                         testing::Values(Placed{"OnTheDevice", kOnTheDevice},
                                         Placed{"ExpertsApart", kExpertsOnTheProcessor},
                                         Placed{"HeadApart", kHeadOnTheProcessor}),
                         test_name);

// Memory that a pass needs beyond what there is: the engine says so before it takes requests.
TEST_F(OnDevices, MemoryThatIsNotThereIsAnErrorWithNumbers) {
  OpenModel open(folder(), options(kOnTheDevice));
  test_memory().set_capacity(3000);
  try {
    const Engine engine(open, nullptr, config());
    FAIL() << "an engine without memory to work in";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cuda:0: cannot allocate 1.0 MiB, 2.9 KiB are free");
  }
}

}  // namespace
}  // namespace graft::engine
