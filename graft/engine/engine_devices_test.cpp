// The engine on simulated devices: sampling there and steps in flight change no token, and a device
// failure fails the running sequences only.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
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

constexpr const char* kCpuOnly =
    "- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: cpu}}}\n";
constexpr const char* kDeviceOnly =
    "- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: \"cuda:0\"}}}\n";
constexpr const char* kExpertsOnCpu = R"yaml(
- match: {name: "[.]experts$"}
  replace: {class: experts, kwargs: {device: cpu, out_device: "cuda:0"}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";
// Prompts stream the experts, decode steps compute one of them on the device.
constexpr const char* kHybridExperts = R"yaml(
- match: {role: experts}
  replace:
    class: experts
    kwargs: {generate_device: cpu, prefill_device: "cuda:0", gpu_experts: 1, stream_from: 4}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";
constexpr const char* kHeadOnCpu = R"yaml(
- match: {name: "^lm_head$"}
  replace: {class: default, kwargs: {device: cpu}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

class OnDevices : public testing::Test {
 protected:
  struct Output {
    std::vector<TokenId> tokens;
    std::optional<Finish> finish;
  };
  using Outputs = std::map<SequenceId, Output>;

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
    options.num_threads = 1;  // thousands of tiny loops: synchronizing threads would dominate
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
  // Its next distribution depends on the tokens before.
  static SamplingParams penalized() {
    SamplingParams params;
    params.top_k = 9;
    params.repetition_penalty = 1.3;
    return params;
  }
  static SamplingParams top_k(std::int64_t k) {
    SamplingParams params;
    params.top_k = k;
    return params;
  }

  static void collect(const std::vector<Update>& updates, Outputs& outputs) {
    for (const Update& update : updates) {
      Output& output = outputs[update.id];
      EXPECT_FALSE(output.finish) << "an update after the last one";
      output.tokens.insert(output.tokens.end(), update.tokens.begin(), update.tokens.end());
      output.finish = update.finish;
    }
  }
  // Runs all requests to the end, within 1000 steps.
  static Outputs run(Engine& engine, const std::vector<Request>& requests) {
    for (const Request& each : requests)
      engine.add(each);
    Outputs outputs;
    for (int step = 0; engine.has_work() && step < 1000; ++step)
      collect(engine.step(), outputs);
    EXPECT_FALSE(engine.has_work());
    EXPECT_EQ(engine.stats().blocks.num_used, 0);
    for (const auto& [id, output] : outputs)
      EXPECT_TRUE(output.finish) << "request " << id.request << " never finished";
    return outputs;
  }
  static std::vector<std::vector<TokenId>> tokens_of(OpenModel& open,
                                                     const std::vector<Request>& requests) {
    Engine engine(open, nullptr, config());
    std::vector<std::vector<TokenId>> tokens;
    test_bytes_out() = 0;
    for (const auto& [id, output] : run(engine, requests))
      tokens.push_back(output.tokens);
    return tokens;
  }
};

struct PlacementCase {
  const char* name;
  const char* rules;
};

class EngineDevices : public OnDevices, public testing::WithParamInterface<PlacementCase> {
 protected:
  static models::OpenOptions placed() { return options(GetParam().rules); }
};

// Gives each request another length, so that the batch changes over time.
std::vector<Request> with_mixed_lengths(std::vector<Request> requests) {
  std::int64_t length = 3;
  for (Request& request : requests)
    request.params.max_tokens = length += 2;
  return requests;
}

TEST_P(EngineDevices, SampleTheTokensOfTheHost) {
  SamplingParams filtered = top_k(30);
  filtered.top_p = 0.8;
  filtered.min_p = 0.01;
  SamplingParams typical = top_k(40);
  typical.typical_p = 0.7;
  typical.temperature = 1.7;
  SamplingParams samples = top_k(3);
  samples.n = 6;  // ten sequences in all, which are padded to a graph bucket
  SamplingParams unfiltered;
  SamplingParams penalties = greedy();
  penalties.repetition_penalty = 1.3;
  SamplingParams logprobs = greedy();
  logprobs.logprobs = 2;
  SamplingParams prompt = top_k(4);
  prompt.prompt_logprobs = 1;
  SamplingParams min_tokens = greedy();
  min_tokens.min_tokens = 2;
  const std::vector<std::vector<Request>> workloads = {
      with_mixed_lengths({request(1, greedy()), request(2, greedy()), request(3, greedy())}),
      with_mixed_lengths({request(4, greedy()), request(5, top_k(5)), request(6, filtered),
                          request(7, typical), request(8, samples)}),
      with_mixed_lengths({request(9, prompt), request(10, logprobs), request(11, min_tokens),
                          request(12, unfiltered), request(13, penalties), request(14, top_k(100)),
                          request(15, filtered), request(16, greedy())})};
  OpenModel cpu(folder(), options(kCpuOnly));
  OpenModel device(folder(), placed());
  for (const std::vector<Request>& requests : workloads)
    EXPECT_EQ(tokens_of(device, requests), tokens_of(cpu, requests));
}

// Batches of the same size with different outputs must not replay each other's graph.
TEST_P(EngineDevices, CapturedGraphsAreKeyedByTheirOutput) {
  SamplingParams logprobs = greedy();
  logprobs.logprobs = 1;
  OpenModel cpu(folder(), options(kCpuOnly));
  OpenModel device(folder(), placed());
  Engine cpu_engine(cpu, nullptr, config());
  Engine device_engine(device, nullptr, config());
  for (const SamplingParams& params :
       {greedy(), top_k(5), logprobs, penalized(), top_k(40), top_k(6), penalized(), greedy()}) {
    const std::vector<Request> three = {request(1, params), request(2, params), request(3, params)};
    const Outputs want = run(cpu_engine, three);
    for (const auto& [id, output] : run(device_engine, three))
      EXPECT_EQ(output.tokens, want.at(id).tokens);
  }
  EXPECT_EQ(cpu_engine.stats().num_graph_replays, 0);
  EXPECT_EQ(device_engine.stats().num_graph_replays > 0, GetParam().rules != kHeadOnCpu);
}

TEST_P(EngineDevices, ReportsMemoryByDevice) {
  OpenModel open(folder(), placed());
  tokens_of(open, {request(1, greedy())});
  const auto use = open.memory_use();
  const auto& device = use.at({.type = DeviceType::Cuda, .index = 0});
  EXPECT_GT(device.weights, 0U);
  EXPECT_GT(device.workspace, 0U);
  EXPECT_EQ(device.kv_cache, open.model().cache_bytes_per_block() *
                                 static_cast<std::uint64_t>(open.model().num_blocks()));
}

TEST_P(EngineDevices, CopiesOnlyTokens) {
  OpenModel open(folder(), placed());
  SamplingParams unfiltered;
  SamplingParams penalties = greedy();
  penalties.repetition_penalty = 1.2;
  const auto bytes_of = [&](const SamplingParams& params) {
    tokens_of(open, {request(1, greedy()), request(2, params)});
    return test_bytes_out();
  };
  SamplingParams logprobs = greedy();
  logprobs.logprobs = 0;
  const std::size_t token_bytes = bytes_of(greedy());
  const std::size_t all_bytes = bytes_of(logprobs);
  for (const SamplingParams& params : {top_k(9), unfiltered, penalties})
    EXPECT_EQ(bytes_of(params), token_bytes);
  if (GetParam().rules == kHeadOnCpu) {
    EXPECT_EQ(token_bytes, all_bytes);
  } else {
    const std::size_t row = static_cast<std::size_t>(open.model().vocab_size()) * sizeof(float);
    EXPECT_EQ(all_bytes - token_bytes, 20 * (row - sizeof(TokenId)));
  }
}

// Stop tokens, which the host sees a step late, preemption in a small KV cache, waiting requests
// and rows that depend on the output, all at once.
TEST_P(EngineDevices, StepsInFlightChangeNoToken) {
  OpenModel cpu(folder(), options(kCpuOnly));
  OpenModel device(folder(), placed());
  EngineConfig small = config();
  small.max_num_seqs = 5;
  small.num_kvcache_blocks = 6;
  small.enable_prefix_caching = true;
  std::vector<Request> requests;
  SamplingParams params;
  params.max_tokens = 24;
  for (TokenId i = 0; i < 9; ++i) {
    params.repetition_penalty = i == 3 || i == 7 ? 1.2 : 1.0;
    params.temperature = 0.3 * i;
    requests.push_back(request(20 + i, params));
  }
  Engine first(cpu, nullptr, small);
  const Outputs unstopped = run(first, requests);
  EXPECT_GT(first.stats().num_preemptions, 0);
  std::size_t i = 0;
  for (const auto& [id, output] : unstopped) {
    if (i % 3 != 0) requests[i].params.stop_token_ids = {output.tokens[2 * i]};
    ++i;
  }
  Engine cpu_engine(cpu, nullptr, small);
  Engine device_engine(device, nullptr, small);
  const Outputs want = run(cpu_engine, requests);
  for (const auto& [id, output] : run(device_engine, requests)) {
    EXPECT_EQ(output.tokens, want.at(id).tokens) << "request " << id.request;
    EXPECT_EQ(output.finish->reason, want.at(id).finish->reason);
  }
  EXPECT_GT(device_engine.stats().num_preemptions, 0);
}

// On one device every call starts a step, and the last one finishes it; otherwise each does both.
// Also where the parameters of a step depend on tokens of the one before: the pass does not.
TEST_P(EngineDevices, EveryStepIsStartedAhead) {
  OpenModel open(folder(), placed());
  for (const SamplingParams& params : {greedy(), penalized()}) {
    Engine engine(open, nullptr, config());
    engine.add(request(1, params));
    int num_calls = 0;
    for (; engine.has_work(); ++num_calls)
      engine.step();
    EXPECT_EQ(num_calls, GetParam().rules == kDeviceOnly ? 11 : 10);
  }
}

// A request is aborted, paused and resumed, or saved after every number of steps, beside another.
TEST_P(EngineDevices, ChangesWhileAStepIsInFlight) {
  OpenModel open(folder(), placed());
  const std::vector<Request> two = {request(1, greedy()), request(2, penalized())};
  const auto want = tokens_of(open, two);
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) /
                                     (std::string("in-flight-") + GetParam().name + ".graft");
  for (int num_steps = 0; num_steps < 8; ++num_steps) {
    SCOPED_TRACE(num_steps);
    Engine engine(open, nullptr, config());
    Outputs outputs;
    for (const Request& each : two)
      engine.add(each);
    for (int step = 0; step < num_steps; ++step)
      collect(engine.step(), outputs);
    if (num_steps % 3 == 0) {
      EXPECT_TRUE(engine.abort(1));
    } else if (num_steps % 3 == 1) {
      engine.pause(1);
      collect(engine.step(), outputs);
      engine.resume(1);
    } else {
      engine.save({.request = 1, .sample = 0}, file);
      collect(engine.step(), outputs);
      EXPECT_TRUE(engine.abort(1));
      const RequestId restored = engine.restore(file);
      const std::vector<TokenId> before = outputs[{.request = 1, .sample = 0}].tokens;
      while (engine.has_work())
        collect(engine.step(), outputs);
      const std::vector<TokenId>& rest = outputs.at({.request = restored, .sample = 0}).tokens;
      EXPECT_TRUE(std::ranges::equal(rest, std::span(want[0]).last(rest.size())));
      EXPECT_GE(before.size() + rest.size(), want[0].size());
    }
    while (engine.has_work())
      collect(engine.step(), outputs);
    if (num_steps % 3 == 1) {
      EXPECT_EQ(outputs.at({.request = 1, .sample = 0}).tokens, want[0]);
    }
    EXPECT_EQ(outputs.at({.request = 2, .sample = 0}).tokens, want[1]);
    EXPECT_EQ(engine.stats().blocks.num_used, 0);
  }
  std::filesystem::remove(file);
}

// At whichever device call the failure occurs, the running sequences finish once with its message,
// and the next requests give the usual output.
TEST_P(EngineDevices, FailureEndsOnlyRunningSequences) {
  OpenModel open(folder(), placed());
  const std::vector<Request> two = {request(1, greedy()), request(2, penalized())};
  const auto want = tokens_of(open, two);
  Engine engine(open, nullptr, config());
  std::int64_t num_failures = 0;
  std::int64_t num_completed = 0;
  for (std::int64_t n = 1; num_completed == 0; n += 1 + n / 12) {
    SCOPED_TRACE(n);
    test_fault() = {.countdown = n};
    for (const auto& [id, output] : run(engine, two)) {
      if (output.finish->reason == FinishReason::Length) {
        ++num_completed;
        continue;
      }
      ++num_failures;
      EXPECT_EQ(output.finish->reason, FinishReason::Error);
      EXPECT_EQ(output.finish->message, "cuda:0: broken for a test");
    }
    test_fault() = {};
    std::vector<std::vector<TokenId>> tokens;
    for (const auto& [id, output] : run(engine, two))
      tokens.push_back(output.tokens);
    ASSERT_EQ(tokens, want);
  }
  EXPECT_GT(num_failures, 60);
}

// Saving finishes the step in flight first.
TEST_F(OnDevices, FailureWhileSavingEndsTheRunningSequences) {
  OpenModel open(folder(), options(kDeviceOnly));
  const std::vector<Request> one = {request(1, greedy())};
  const auto want = tokens_of(open, one);
  Engine engine(open, nullptr, config());
  engine.add(one[0]);
  Outputs outputs;
  for (int step = 0; step < 3; ++step)
    collect(engine.step(), outputs);
  test_fault() = {.countdown = 1};
  EXPECT_THROW(engine.save({.request = 1, .sample = 0}, "not-written.graft"), Error);
  test_fault() = {};
  collect(engine.step(), outputs);
  const Output& failed = outputs.at({.request = 1, .sample = 0});
  ASSERT_TRUE(failed.finish);
  EXPECT_EQ(failed.finish->message, "cuda:0: broken for a test");
  EXPECT_EQ(run(engine, one).begin()->second.tokens, want[0]);
}

TEST_P(EngineDevices, PermanentFailureEndsEveryRequest) {
  OpenModel open(folder(), placed());
  EngineConfig one_slot = config();
  one_slot.max_num_seqs = 1;
  Engine engine(open, nullptr, one_slot);
  test_fault() = {.countdown = 200, .is_lasting = true};
  const Outputs outputs =
      run(engine, {request(1, greedy()), request(2, greedy()), request(3, top_k(2))});
  EXPECT_EQ(outputs.size(), 3U);
  for (const auto& [id, output] : outputs) {
    EXPECT_EQ(output.finish->reason, FinishReason::Error);
    EXPECT_EQ(output.finish->message, "cuda:0: broken for a test");
  }
  Request embedding = {.prompt = {1, 2, 3}};
  embedding.pooling = Pooling::Mean;
  for (const auto& [id, output] : run(engine, {embedding}))
    EXPECT_EQ(output.finish->reason, FinishReason::Error);
  EXPECT_EQ(engine.stats().blocks.num_used, 0);
}

// A model whose device is lost, beside one on the CPU, each on its own thread.
TEST_P(EngineDevices, OtherModelsKeepServing) {
  OpenModel lost(folder(), placed());
  OpenModel open(folder(), options(kCpuOnly));
  const std::vector<Request> two = {request(1, greedy()), request(2, top_k(9))};
  const auto want = tokens_of(open, two);
  Engine lost_engine(lost, nullptr, config());
  test_fault() = {.countdown = 100, .is_lasting = true};
  std::thread failing([&] {
    for (int round = 0; round < 10; ++round) {
      for (const auto& [id, output] : run(lost_engine, two))
        EXPECT_TRUE(output.finish);
    }
  });
  for (int round = 0; round < 3; ++round)
    EXPECT_EQ(tokens_of(open, two), want);
  failing.join();
  for (const auto& [id, output] : run(lost_engine, two))
    EXPECT_EQ(output.finish->reason, FinishReason::Error);
}

std::string test_name(const testing::TestParamInfo<PlacementCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Rules,
                         EngineDevices,
                         testing::Values(PlacementCase{"DeviceOnly", kDeviceOnly},
                                         PlacementCase{"ExpertsOnCpu", kExpertsOnCpu},
                                         PlacementCase{"HybridExperts", kHybridExperts},
                                         PlacementCase{"HeadOnCpu", kHeadOnCpu}),
                         test_name);

// Without the text of a rule file, rules are made for the model.
TEST_F(OnDevices, RulesCanBeMadeForTheModel) {
  models::OpenOptions made = options("");
  std::string family;
  made.make_rules = [&](const plan::Blueprint& blueprint) {
    family = blueprint.family;
    return std::string(kHeadOnCpu);
  };
  const OpenModel open(folder(), made);
  EXPECT_EQ(family, "deepseek_v3");
  EXPECT_EQ(open.plan().at("lm_head").decode.device(), kCpu);
  EXPECT_EQ(open.plan().at("model.norm").decode.device(), (Device{DeviceType::Cuda, 0}));
}

// The warm-up in the constructor reports out of memory before any request is accepted.
TEST_F(OnDevices, ConstructorReportsOutOfMemory) {
  OpenModel open(folder(), options(kDeviceOnly));
  test_memory().set_capacity(test_memory().allocated(0) + 3000);
  try {
    const Engine engine(open, nullptr, config());
    FAIL() << "expected an out-of-memory error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cuda:0: cannot allocate 5.0 KiB, 2.9 KiB are free");
  }
}

}  // namespace
}  // namespace graft::engine
