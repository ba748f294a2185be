// Batch invariance: random workloads under many configurations give, bit for bit, the output of
// each request run alone.

#include "graft/engine/engine.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/models/generate.h"
#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"

namespace graft::engine {
namespace {

using models::OpenModel;

struct Output {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;
  std::string text;
  std::optional<Finish> finish;
  std::int64_t num_cached = 0;
};
using Outputs = std::map<SequenceId, Output>;

void collect(std::vector<Update> updates, Outputs& outputs) {
  for (Update& update : updates) {
    Output& output = outputs[update.id];
    EXPECT_FALSE(output.finish) << "an update after the last one";
    output.tokens.insert(output.tokens.end(), update.tokens.begin(), update.tokens.end());
    output.logprobs.insert(output.logprobs.end(), update.logprobs.begin(), update.logprobs.end());
    output.text += update.text;
    output.finish = update.finish;
    output.num_cached = update.num_cached;
    output.prompt_logprobs = update.prompt_logprobs;
  }
}

void run_all(Engine& engine, Outputs& outputs) {
  while (engine.has_work())
    collect(engine.step(), outputs);
}

bool is_same(const std::vector<TokenLogprobs>& a, const std::vector<TokenLogprobs>& b) {
  return std::ranges::equal(a, b, [](const TokenLogprobs& x, const TokenLogprobs& y) {
    return x.token == y.token && std::memcmp(&x.logprob, &y.logprob, sizeof(float)) == 0 &&
           x.rank == y.rank && x.top == y.top;
  });
}

void expect_same(const Output& got, const Output& want, const std::string& what) {
  EXPECT_EQ(got.tokens, want.tokens) << what;
  EXPECT_TRUE(is_same(got.logprobs, want.logprobs)) << what << ": logprobs differ";
  EXPECT_TRUE(is_same(got.prompt_logprobs, want.prompt_logprobs)) << what << ": prompt logprobs";
  EXPECT_EQ(got.text, want.text) << what;
  ASSERT_TRUE(got.finish && want.finish) << what;
  EXPECT_EQ(got.finish->reason, want.finish->reason) << what;
}

// Alone in the engine, unchunked, without prefix caching.
Outputs run_alone(OpenModel& open, const Request& request) {
  EngineConfig config;
  config.enable_prefix_caching = false;
  config.max_model_len = 256;
  config.num_kvcache_blocks = 200;
  Engine engine(open, nullptr, config);
  const RequestId id = engine.add(request);
  Outputs outputs;
  run_all(engine, outputs);
  Outputs by_sample;
  for (auto& [sequence, output] : outputs) {
    EXPECT_EQ(sequence.request, id);
    by_sample[{.request = 0, .sample = sequence.sample}] = output;
  }
  return by_sample;
}

class Pick {
 public:
  explicit Pick(unsigned seed) : random_(seed) {}
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::mt19937 random_;
};

// Prompts with shared prefixes and random sampling parameters.
std::vector<Request> make_requests(std::int64_t count, std::int64_t vocab_size, Pick& pick) {
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < count; ++i) {
    Request request;
    const std::int64_t family = pick(0, 2);
    for (std::int64_t k = pick(1, 60); k > 0; --k) {
      const auto position = static_cast<std::int64_t>(request.prompt.size());
      request.prompt.push_back(
          static_cast<TokenId>((family * 131 + position * 17 + 3) % vocab_size));
    }
    if (pick(0, 1) == 0) request.prompt.back() = static_cast<TokenId>(pick(0, vocab_size - 1));
    SamplingParams& params = request.params;
    params.max_tokens = pick(1, 24);
    params.ignore_eos = true;
    params.seed = static_cast<std::uint64_t>(pick(0, 1000));
    params.temperature = pick(0, 2) == 0 ? 0.0 : 0.9;
    if (params.temperature > 0 && pick(0, 4) == 0) params.n = pick(2, 3);
    if (pick(0, 2) == 0) params.logprobs = pick(0, 3);
    if (pick(0, 9) == 0) params.prompt_logprobs = 2;
    if (pick(0, 3) == 0) params.top_p = 0.7;
    if (pick(0, 3) == 0) params.repetition_penalty = 1.3;
    request.priority = pick(0, 4) == 0 ? -1 : 0;
    requests.push_back(request);
  }
  return requests;
}

struct Limits {
  std::int64_t budget, slots, blocks, block_tokens, chunk;
  bool caching;
};

class EngineBatchInvariance : public testing::TestWithParam<Limits> {};

EngineConfig config_of(const Limits& limits) {
  EngineConfig config;
  config.max_num_batched_tokens = limits.budget;
  config.max_num_seqs = limits.slots;
  config.num_kvcache_blocks = limits.blocks;
  config.kvcache_block_size = limits.block_tokens;
  config.chunk_prefill_size = limits.chunk;
  config.enable_prefix_caching = limits.caching;
  config.max_model_len = 256;
  return config;
}

void expect_same_as_alone(OpenModel& open,
                          const std::map<RequestId, Request>& requests,
                          const Outputs& outputs) {
  for (const auto& [id, request] : requests) {
    for (const auto& [sample, want] : run_alone(open, request)) {
      const SequenceId sequence = {.request = id, .sample = sample.sample};
      ASSERT_TRUE(outputs.contains(sequence)) << "request " << id << " never finished";
      const Output& got = outputs.at(sequence);
      if (got.finish && got.finish->reason == FinishReason::Abort) {
        EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), want.tokens.begin()));
      } else {
        expect_same(got, want, str("request ", id, ", sample ", sample.sample));
      }
    }
  }
}

TEST_P(EngineBatchInvariance, OutputEqualsEachRequestAlone) {
  for (const char* name :
       {"deepseek-v3", "deepseek-v3.2", "deepseek-v4", "llama", "llama4", "qwen3-next"}) {
    const auto folder = golden_checkpoint(name);
    OpenModel open(folder);
    Pick pick(static_cast<unsigned>(GetParam().blocks));
    std::vector<Request> queue =
        make_requests(kUnderSanitizers ? 16 : 40, open.model().vocab_size(), pick);
    std::map<RequestId, Request> requests;
    Outputs outputs;
    {
      Engine engine(open, nullptr, config_of(GetParam()));
      while (!queue.empty() || engine.has_work()) {
        for (std::int64_t k = pick(0, 3); k > 0 && !queue.empty(); --k) {
          requests[engine.add(queue.back())] = queue.back();
          queue.pop_back();
        }
        // Abort a random request in one of twenty steps.
        if (pick(0, 19) == 0 && !requests.empty()) {
          auto victim = requests.begin();
          std::advance(victim, pick(0, static_cast<std::int64_t>(requests.size()) - 1));
          engine.abort(victim->first);
        }
        collect(engine.step(), outputs);
      }
      EXPECT_EQ(engine.stats().blocks.num_used, 0);
    }
    expect_same_as_alone(open, requests, outputs);
  }
}

INSTANTIATE_TEST_SUITE_P(Configurations,
                         EngineBatchInvariance,
                         testing::Values(Limits{2048, 64, 400, 16, 0, true},
                                         Limits{2048, 64, 400, 16, 0, false},
                                         Limits{32, 8, 120, 4, 7, true},   // small chunks
                                         Limits{64, 16, 24, 8, 64, true},  // preemptions
                                         Limits{16, 4, 300, 1, 16, true},
                                         Limits{100, 20, 30, 8, 33, false}));

class EngineTest : public testing::Test {
 protected:
  static std::filesystem::path folder() { return golden_checkpoint("deepseek-v3"); }
  static Request greedy(std::vector<TokenId> prompt, std::int64_t max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.params.temperature = 0;
    request.params.max_tokens = max_tokens;
    request.params.ignore_eos = true;
    return request;
  }
  static std::vector<TokenId> prompt_of(std::int64_t length) {
    std::vector<TokenId> prompt;
    for (std::int64_t i = 0; i < length; ++i)
      prompt.push_back(static_cast<TokenId>((i * 29 + 11) % 250));
    return prompt;
  }
};

TEST_F(EngineTest, GreedyMatchesModelWithoutEngine) {
  OpenModel open(folder());
  const std::vector<TokenId> want = models::generate_greedy(open.model(), prompt_of(20), 24);
  Engine engine(open, nullptr, {.max_model_len = 100});
  const RequestId id = engine.add(greedy(prompt_of(20), 24));
  Outputs outputs;
  run_all(engine, outputs);
  EXPECT_EQ((outputs[{.request = id, .sample = 0}].tokens), want);
}

TEST_F(EngineTest, PreemptionDoesNotChangeOutput) {
  OpenModel open(folder());
  Outputs outputs;
  std::map<RequestId, Request> requests;
  {
    Engine engine(open, nullptr, config_of({64, 8, 8, 8, 64, true}));
    for (int i = 0; i < 6; ++i) {
      Request request = greedy(prompt_of(10 + i), 30);
      requests[engine.add(request)] = request;
    }
    run_all(engine, outputs);
    EXPECT_GT(engine.stats().num_preemptions, 0);
  }
  expect_same_as_alone(open, requests, outputs);
}

TEST_F(EngineTest, PausedRequestsHoldNoSlotsAndContinueUnchanged) {
  OpenModel open(folder());
  Outputs outputs;
  std::map<RequestId, Request> requests;
  {
    Engine engine(open, nullptr, config_of({64, 2, 40, 8, 64, true}));
    Request sampled = greedy(prompt_of(20), 12);
    sampled.params.n = 2;
    sampled.params.temperature = 1;
    sampled.params.seed = 3;
    const RequestId slow = engine.add(sampled);
    requests[slow] = sampled;
    for (int i = 0; i < 4; ++i)
      collect(engine.step(), outputs);
    const RequestId other = engine.add(greedy(prompt_of(9), 5));
    requests[other] = greedy(prompt_of(9), 5);
    engine.pause(slow);
    EXPECT_EQ(engine.stats().blocks.num_used, 0);
    EXPECT_EQ(engine.stats().num_waiting, 3);
    run_all(engine, outputs);
    EXPECT_TRUE((outputs[{.request = other, .sample = 0}].finish)) << "it got a slot";
    EXPECT_FALSE(engine.has_work());
    EXPECT_TRUE(engine.step().empty());
    engine.resume(slow);
    run_all(engine, outputs);
    const RequestId aborted = engine.add(greedy(prompt_of(9), 5));
    engine.pause(aborted);
    EXPECT_TRUE(engine.abort(aborted));
    EXPECT_EQ(engine.step().size(), 1);
    EXPECT_EQ(engine.stats().num_waiting, 0);
  }
  expect_same_as_alone(open, requests, outputs);
}

TEST_F(EngineTest, EmbeddingsAreChunkedAndBatchedLikePrompts) {
  OpenModel open(folder());
  const auto embed = [&](const Limits& limits, Pooling pooling, bool is_batched) {
    Engine engine(open, nullptr, config_of(limits));
    Request request = {.prompt = prompt_of(61)};
    request.pooling = pooling;
    const RequestId id = engine.add(request);
    for (int i = 0; is_batched && i < 4; ++i)
      engine.add(greedy(prompt_of(50 + i), 12));
    std::vector<float> vector;
    while (engine.has_work()) {
      for (const Update& update : engine.step()) {
        if (update.id.request != id) continue;
        EXPECT_EQ(update.finish->reason, FinishReason::Stop);
        EXPECT_EQ(update.num_prompt, 61);
        vector = update.embedding;
      }
    }
    EXPECT_EQ(engine.stats().blocks.num_used, 0);
    return vector;
  };
  for (const Pooling pooling : {Pooling::Mean, Pooling::Last}) {
    const std::vector<float> want = embed({2048, 8, 100, 8, 0, false}, pooling, false);
    EXPECT_FALSE(want.empty());
    EXPECT_EQ(embed({20, 4, 100, 4, 7, true}, pooling, false), want) << "in chunks";
    EXPECT_EQ(embed({20, 4, 100, 4, 7, true}, pooling, true), want) << "in a batch";
    EXPECT_EQ(embed({64, 8, 10, 8, 64, true}, pooling, true), want) << "with preemptions";
  }
}

TEST_F(EngineTest, EmbeddingsDelayNoFirstToken) {
  OpenModel open(folder());
  Engine engine(open, nullptr, config_of({64, 4, 100, 8, 0, true}));
  for (int i = 0; i < 12; ++i) {
    Request text = {.prompt = prompt_of(100)};
    text.prompt[0] = i;
    text.pooling = Pooling::Mean;
    engine.add(text);
  }
  engine.step();
  const RequestId chat = engine.add(greedy(prompt_of(30), 4));
  Outputs outputs;
  // One prompt chunk and three decode steps, although 1,200 tokens of texts were queued before.
  for (int i = 0; i < 4; ++i)
    collect(engine.step(), outputs);
  const Output& answer = outputs[{.request = chat, .sample = 0}];
  EXPECT_EQ(answer.tokens.size(), 4);
  EXPECT_TRUE(answer.finish);
  run_all(engine, outputs);
  EXPECT_EQ(outputs.size(), 13);
}

TEST_F(EngineTest, SecondPromptHitsPrefixCache) {
  OpenModel open(folder());
  Engine engine(open, nullptr, config_of({256, 8, 100, 4, 0, true}));
  Outputs outputs;
  engine.add(greedy(prompt_of(41), 1));
  run_all(engine, outputs);
  const RequestId second = engine.add(greedy(prompt_of(41), 1));
  run_all(engine, outputs);
  EXPECT_EQ((outputs[{.request = second, .sample = 0}].num_cached), 40);
  EXPECT_EQ(engine.stats().num_hit_tokens, 40);
  EXPECT_EQ(engine.stats().num_computed_tokens, 42);
  // Releasing idle memory also empties the prefix cache.
  engine.release_idle_memory();
  const RequestId third = engine.add(greedy(prompt_of(41), 1));
  run_all(engine, outputs);
  EXPECT_EQ((outputs[{.request = third, .sample = 0}].num_cached), 0);
}

TEST_F(EngineTest, RejectsInvalidRequestsAndFinishesTooLongOnes) {
  OpenModel open(folder());
  EngineConfig config = config_of({256, 4, 5, 8, 0, true});
  config.max_model_len = 60;
  Engine engine(open, nullptr, config);
  const auto error_of = [&](const Request& request) {
    try {
      engine.add(request);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of(greedy(prompt_of(60), 1)),
            "the prompt has 60 tokens, max_model_len is 60: no room is left for output tokens");
  EXPECT_EQ(error_of(greedy(prompt_of(41), 1)), "the prompt has 41 tokens, the KV cache holds 40");
  EXPECT_EQ(error_of(greedy({}, 1)), "the prompt is empty");
  EXPECT_NE(error_of(greedy({1, 1 << 20}, 1)).find("is out of range: the vocabulary has"),
            std::string::npos);
  Request many = greedy({1}, 1);
  many.params.temperature = 1;
  many.params.n = 5;
  EXPECT_EQ(error_of(many), "n is 5, max_num_seqs is 4");
  Request stops = greedy({1}, 1);
  stops.params.stop = {"x"};
  EXPECT_EQ(error_of(stops), "stop strings need a tokenizer, but the model has none");
  stops.params.stop.clear();
  stops.params.min_indent = 2;
  EXPECT_EQ(error_of(stops), "limits of lines need a tokenizer, but the model has none");
  Request masked = greedy({1}, 1);
  masked.params.allowed_token_ids = masked.params.stop_token_ids = {3};
  masked.params.min_tokens = 1;
  EXPECT_TRUE(error_of(masked).starts_with("every token is masked")) << error_of(masked);

  const RequestId too_long = engine.add(greedy(prompt_of(20), 1000));
  const RequestId small = engine.add(greedy(prompt_of(7), 5));
  Outputs outputs;
  run_all(engine, outputs);
  const Finish& end = *outputs[{.request = too_long, .sample = 0}].finish;
  EXPECT_EQ(end.reason, FinishReason::Length);
  EXPECT_EQ(end.message, "the KV cache is full: it holds 40 tokens");
  EXPECT_EQ((outputs[{.request = too_long, .sample = 0}].tokens.size()), 21U);
  EXPECT_EQ((outputs[{.request = small, .sample = 0}].tokens.size()), 5U);

  config.num_kvcache_blocks = 100;
  Engine roomy(open, nullptr, config);
  const RequestId id = roomy.add(greedy(prompt_of(20), 1000));
  run_all(roomy, outputs = {});
  const Output& full = outputs[{.request = id, .sample = 0}];
  EXPECT_EQ(full.tokens.size(), 40U);
  EXPECT_EQ(full.finish->message, "max_model_len of 60 tokens reached");
}

TEST_F(EngineTest, StopTokensApplyAfterMinTokens) {
  OpenModel open(folder());
  const std::vector<TokenId> path = models::generate_greedy(open.model(), prompt_of(20), 8);
  Engine fresh(open, nullptr, {.max_model_len = 100});
  Request request = greedy(prompt_of(20), 8);
  request.params.stop_token_ids = {path[3]};
  const RequestId first = fresh.add(request);
  request.params.min_tokens = 6;
  const RequestId second = fresh.add(request);
  Outputs outputs;
  run_all(fresh, outputs);
  const Output& stopped = outputs[{.request = first, .sample = 0}];
  const auto where = std::ranges::find(path, path[3]) - path.begin();
  EXPECT_EQ(static_cast<std::ptrdiff_t>(stopped.tokens.size()), where + 1);
  EXPECT_EQ(stopped.finish->reason, FinishReason::Stop);
  EXPECT_EQ(stopped.finish->stop_token, path[3]);
  EXPECT_GE((outputs[{.request = second, .sample = 0}].tokens.size()), 6U);
}

// A sequence saved after any number of steps continues with the same tokens.
TEST_F(EngineTest, SavedSequencesContinueInAnotherEngine) {
  OpenModel open(folder());
  const TempDir folder_of_file;
  const auto path = folder_of_file / "saved.seq";
  Request request = greedy(prompt_of(37), 20);
  request.params.temperature = 0.8;
  request.params.seed = 5;
  request.params.logprobs = 1;
  const Output want = run_alone(open, request).begin()->second;
  for (const int num_steps : {0, 1, 3, 5, 12}) {
    Outputs before;
    {
      Engine engine(open, nullptr, config_of({8, 4, 100, 4, 8, true}));
      const RequestId id = engine.add(request);
      for (int i = 0; i < num_steps; ++i)
        collect(engine.step(), before);
      engine.save({.request = id, .sample = 0}, path);
    }
    const std::vector<TokenId> head =
        before.empty() ? std::vector<TokenId>() : before.begin()->second.tokens;
    // The same block size, another one, and a nearly full cache.
    for (const Limits& limits : {Limits{64, 4, 100, 4, 0, true}, Limits{64, 4, 100, 16, 0, true},
                                 Limits{64, 4, 15, 4, 0, false}}) {
      Engine engine(open, nullptr, config_of(limits));
      Outputs after;
      engine.restore(path);
      run_all(engine, after);
      std::vector<TokenId> tokens = head;
      const Output& rest = after.begin()->second;
      tokens.insert(tokens.end(), rest.tokens.begin(), rest.tokens.end());
      EXPECT_EQ(tokens, want.tokens) << "after " << num_steps << " steps";
      ASSERT_FALSE(rest.logprobs.empty());
      EXPECT_EQ(rest.logprobs.back().logprob, want.logprobs.back().logprob);
    }
  }
}

TEST_F(EngineTest, RejectsSnapshotsOfOtherModelsAndDamagedFiles) {
  const TempDir folder_of_file;
  const auto path = folder_of_file / "damaged.seq";
  OpenModel open(folder());
  {
    Engine engine(open, nullptr, {.max_model_len = 100});
    const RequestId id = engine.add(greedy(prompt_of(20), 20));
    engine.step();
    engine.save({.request = id, .sample = 0}, path);
    EXPECT_THROW(engine.save({.request = id, .sample = 1}, path), Error);
    EXPECT_THROW(engine.save({.request = id, .sample = 0}, "/nowhere/at/all"), Error);
  }
  const auto error_of = [&](OpenModel& model) {
    Engine engine(model, nullptr, {.max_model_len = 100});
    try {
      engine.restore(path);
    } catch (const Error& error) {
      return std::string(error.what()).substr(path.string().size());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(error_of(open), "accepted");
  OpenModel other(golden_checkpoint("deepseek-v2"));
  EXPECT_EQ(error_of(other), ": saved with another model");
  models::OpenOptions wide;
  wide.rules = "- {match: {role: kv_cache}, replace: {class: default, kwargs: {dtype: f32}}}\n";
  OpenModel wide_cache(folder(), wide);
  EXPECT_EQ(error_of(wide_cache).find(": saved with KV cache layout "), 0U);

  const auto size = std::filesystem::file_size(path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size / 2));
  file.put('\x5a');
  file.put('\xa5');
  file.close();
  EXPECT_EQ(error_of(open).find(": damaged"), 0U);
  for (const auto cut : {size - 1, size / 3, std::uintmax_t{10}}) {
    std::filesystem::resize_file(path, cut);
    EXPECT_NE(error_of(open), "accepted") << cut;
  }
}

TEST(EngineConfig, RejectsInvalidValues) {
  const EngineLimits limits = {.model_context = 1000,
                               .block_tokens = 16,
                               .bytes_per_token = 100,
                               .available_bytes = 1'000'000};
  const auto error_of = [&](const EngineConfig& config) {
    try {
      resolve(config, limits);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of({.max_num_batched_tokens = 8, .max_num_seqs = 9}),
            "max_num_batched_tokens (8) is less than max_num_seqs (9): every running sequence "
            "needs one token per step");
  EXPECT_EQ(error_of({.max_model_len = 1001}),
            "max_model_len (1001) exceeds the model's context of 1000 tokens");
  EXPECT_EQ(error_of({.num_kvcache_blocks = 0, .tensor_parallel_size = 2}),
            "num_kvcache_blocks is 0, expected -1 (automatic) or at least 1; "
            "tensor_parallel_size is 2, expected 1: tensor parallelism is not supported");
  const EngineConfig config = resolve({}, limits);
  EXPECT_EQ(config.max_model_len, 1000);
  EXPECT_EQ(config.kvcache_block_size, 16);
  EXPECT_EQ(config.num_kvcache_blocks, 900'000 / 1600);
  // Limited to max_num_seqs sequences of max_model_len.
  EXPECT_EQ(resolve({.max_num_seqs = 1}, limits).num_kvcache_blocks, 63);
}

}  // namespace
}  // namespace graft::engine
