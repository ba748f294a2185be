// Recurrent states through the engine: batches, prefix cache, forks, preemption, save and restore
// give the tokens of each request alone.

#include <filesystem>
#include <map>
#include <utility>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/engine/engine.h"
#include "graft/models/generate.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"
#include "graft/testing/test_names.h"

namespace graft::engine {
namespace {

constexpr std::int64_t kBlock = 4;

EngineConfig states_config(std::int64_t slots = 8, std::int64_t blocks = 200) {
  EngineConfig config;
  config.max_num_seqs = slots;
  config.num_kvcache_blocks = blocks;
  config.kvcache_block_size = kBlock;
  config.max_model_len = 256;
  return config;
}

class EngineStates : public testing::TestWithParam<const char*> {
 protected:
  EngineStates() : open_(golden_checkpoint(GetParam())) {}

  static std::vector<TokenId> prompt_of(std::int64_t length, std::int64_t seed = 11) {
    std::vector<TokenId> prompt;
    for (std::int64_t i = 0; i < length; ++i)
      prompt.push_back(static_cast<TokenId>((i * 29 + seed) % 250));
    return prompt;
  }
  static std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  RequestId add(Engine& engine, std::vector<TokenId> prompt, std::int64_t max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.params.temperature = 0;
    request.params.max_tokens = max_tokens;
    request.params.ignore_eos = true;
    const RequestId id = engine.add(request);
    prompts_[id] = request;
    return id;
  }
  void collect(std::vector<Update> updates) {
    for (const Update& update : updates) {
      std::vector<TokenId>& tokens = tokens_[update.id.request];
      tokens.insert(tokens.end(), update.tokens.begin(), update.tokens.end());
      num_cached_[update.id.request] = update.num_cached;
    }
  }
  void run(Engine& engine) {
    while (engine.has_work())
      collect(engine.step());
  }
  // Runs one request to its end; returns the prompt tokens it found in the prefix cache.
  std::int64_t run_one(Engine& engine, std::vector<TokenId> prompt, std::int64_t max_tokens) {
    const RequestId id = add(engine, std::move(prompt), max_tokens);
    run(engine);
    last_ = id;
    return num_cached_[id];
  }
  // After the engine is gone: its states are those of the model.
  void expect_same_as_alone() {
    for (const auto& [id, request] : prompts_) {
      EXPECT_EQ(tokens_[id],
                models::generate_greedy(open_.model(), request.prompt, *request.params.max_tokens))
          << "request " << id;
    }
  }

  models::OpenModel open_;
  std::map<RequestId, Request> prompts_;
  std::map<RequestId, std::vector<TokenId>> tokens_;
  std::map<RequestId, std::int64_t> num_cached_;
  RequestId last_ = 0;
};

TEST_P(EngineStates, RepeatedPromptsContinueFromASnapshot) {
  {
    Engine engine(open_, nullptr, states_config());
    EXPECT_EQ(run_one(engine, prompt_of(41), 6), 0);
    EXPECT_EQ(run_one(engine, prompt_of(41), 6), 40);
    engine.release_idle_memory();
    EXPECT_EQ(run_one(engine, prompt_of(41), 6), 0);
  }
  expect_same_as_alone();
}

TEST_P(EngineStates, NextTurnsContinueAfterTheOutput) {
  {
    Engine engine(open_, nullptr, states_config());
    run_one(engine, prompt_of(21), 15);
    // 36 tokens; the last one was sampled, not computed.
    const std::vector<TokenId> turn =
        joined(joined(prompt_of(21), tokens_[last_]), prompt_of(9, 5));
    EXPECT_EQ(run_one(engine, turn, 5), 32);
  }
  expect_same_as_alone();
}

TEST_P(EngineStates, SharedPrefixesGetASnapshotWhenASecondPromptHasThem) {
  {
    Engine engine(open_, nullptr, states_config());
    const std::vector<TokenId> system = prompt_of(24);
    EXPECT_EQ(run_one(engine, joined(system, prompt_of(13, 90)), 3), 0);
    // Its blocks are known, but no state at their end: computed, and kept.
    EXPECT_EQ(run_one(engine, joined(system, prompt_of(13, 120)), 3), 0);
    EXPECT_EQ(run_one(engine, joined(system, prompt_of(13, 150)), 3), 24);
  }
  expect_same_as_alone();
}

TEST_P(EngineStates, SnapshotsAreBounded) {
  {
    Engine engine(open_, nullptr, states_config(2));  // 4 snapshots
    for (std::int64_t i = 0; i < 6; ++i)
      run_one(engine, prompt_of(13, 20 * i), 1);
    EXPECT_EQ(run_one(engine, prompt_of(13, 0), 1), 0);
    EXPECT_EQ(run_one(engine, prompt_of(13, 100), 1), 12);
  }
  expect_same_as_alone();
}

TEST_P(EngineStates, ForksContinueFromTheStateOfThePrompt) {
  std::map<std::int64_t, std::vector<TokenId>> samples;
  Request request;
  request.prompt = prompt_of(19);
  request.params = {.n = 3, .temperature = 0.9, .seed = 7, .max_tokens = 12, .ignore_eos = true};
  {
    Engine engine(open_, nullptr, states_config());
    engine.add(request);
    add(engine, prompt_of(30, 3), 9);
    while (engine.has_work()) {
      for (const Update& update : engine.step()) {
        auto& tokens = update.id.request == 1 ? samples[update.id.sample] : tokens_[2];
        tokens.insert(tokens.end(), update.tokens.begin(), update.tokens.end());
      }
    }
  }
  // Sample i draws with seed + i.
  for (std::int64_t i = 0; i < 3; ++i) {
    Engine engine(open_, nullptr, states_config());
    Request alone = request;
    alone.params.n = 1;
    alone.params.seed = *request.params.seed + static_cast<std::uint64_t>(i);
    engine.add(alone);
    std::vector<TokenId> tokens;
    while (engine.has_work()) {
      for (const Update& update : engine.step())
        tokens.insert(tokens.end(), update.tokens.begin(), update.tokens.end());
    }
    EXPECT_EQ(samples[i], tokens) << "sample " << i;
  }
  expect_same_as_alone();
}

TEST_P(EngineStates, PreemptedSequencesContinueUnchanged) {
  {
    Engine engine(open_, nullptr, states_config(8, 16));
    for (std::int64_t i = 0; i < 6; ++i)
      add(engine, prompt_of(10 + i, 13 * i), 30);
    run(engine);
    EXPECT_GT(engine.stats().num_preemptions, 0);
  }
  expect_same_as_alone();
}

TEST_P(EngineStates, SavedSequencesContinueInAnotherEngine) {
  const TempDir folder;
  const std::filesystem::path path = folder / "saved.seq";
  for (const int num_steps : {0, 1, 2, 9}) {
    prompts_.clear();
    tokens_.clear();
    RequestId id = 0;
    {
      Engine engine(open_, nullptr, states_config());
      id = add(engine, prompt_of(37), 20);
      for (int i = 0; i < num_steps; ++i)
        collect(engine.step());
      engine.save({.request = id, .sample = 0}, path);
    }
    {
      Engine engine(open_, nullptr, states_config());
      engine.restore(path, id);
      add(engine, prompt_of(12, 3), 4);
      run(engine);
      // Continues from the saved state instead of computing the prompt again.
      if (num_steps > 0) {
        EXPECT_LT(engine.stats().num_computed_tokens, 37);
      }
    }
    expect_same_as_alone();
  }
}

TEST_P(EngineStates, FewerSequencesRunWhereMemoryIsScarce) {
  const std::uint64_t weights = open_.memory_use().at(kCpu).weights;
  const std::size_t slot = open_.model().state_bytes_per_slot();
  models::OpenOptions options;
  // A quarter of 90 % of what is left: 22 slots.
  options.memory = weights + 100 * slot;
  models::OpenModel small(golden_checkpoint(GetParam()), options);
  EngineConfig config = states_config(128);
  config.num_kvcache_blocks = 60;
  {
    Engine engine(small, nullptr, config);
    EXPECT_EQ(engine.config().max_num_seqs, 18);  // and four snapshots
    EXPECT_EQ(small.memory_use().at(kCpu).states, 22 * slot);
    for (std::int64_t i = 0; i < 30; ++i)
      add(engine, prompt_of(5 + i % 7, 9 * i), 3);
    run(engine);
  }
  expect_same_as_alone();
  options.memory = weights + 4 * slot;
  models::OpenModel tiny(golden_checkpoint(GetParam()), options);
  EXPECT_THROW(Engine(tiny, nullptr, config), Error);
}

// Steps run ahead of their tokens, in captured graphs that are padded to buckets.
TEST_P(EngineStates, DevicesGiveTheSameTokens) {
  models::OpenOptions options;
  options.rules =
      "- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: \"cuda:0\"}}}\n";
  options.machine.num_gpus = 1;
  options.operators = ops::testing::with_test_devices;
  models::OpenModel device(golden_checkpoint(GetParam()), options);
  {
    Engine engine(device, nullptr, states_config(12));
    for (std::int64_t i = 0; i < 9; ++i)
      add(engine, prompt_of(10 + 3 * i, 13 * i), 12 + i);
    run(engine);
    EXPECT_GT(engine.stats().num_graph_replays, 0);
    EXPECT_EQ(run_one(engine, prompt_of(34, 13 * 8), 6), 32);
    const std::vector<TokenId> turn = joined(prompt_of(10, 0), tokens_[1]);
    EXPECT_GE(run_one(engine, turn, 6), 16);
  }
  expect_same_as_alone();
}

INSTANTIATE_TEST_SUITE_P(Models,
                         EngineStates,
                         testing::Values("qwen3-next", "qwen3.5-moe"),
                         checkpoint_test_name);

}  // namespace
}  // namespace graft::engine
