// Models whose layers all have a sliding window: blocks out of the window are freed, and the tokens
// and logprobs are, bit for bit, those of a cache in which nothing was overwritten.

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/engine/engine.h"
#include "graft/engine/snapshot.h"
#include "graft/models/generate.h"
#include "graft/testing/golden.h"
#include "graft/testing/windowed_model.h"

namespace graft::engine {
namespace {

constexpr std::int64_t kWindow = 24;

struct WindowOutput {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;

  bool operator==(const WindowOutput&) const = default;
};

std::vector<TokenId> window_prompt(std::int64_t length, std::int64_t seed = 11) {
  std::vector<TokenId> prompt;
  for (std::int64_t i = 0; i < length; ++i)
    prompt.push_back(static_cast<TokenId>((i * i * 7 + i * 29 + seed) % 250));
  return prompt;
}

Request window_request(std::vector<TokenId> prompt, std::int64_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.params.temperature = 0;
  request.params.max_tokens = max_tokens;
  request.params.ignore_eos = true;
  request.params.logprobs = 1;
  return request;
}

EngineConfig window_config(std::int64_t num_blocks, std::int64_t budget = 64) {
  EngineConfig config;
  config.max_num_batched_tokens = budget;
  config.max_num_seqs = 8;
  config.num_kvcache_blocks = num_blocks;
  config.kvcache_block_size = 4;
  config.max_model_len = 500;
  return config;
}

using WindowOutputs = std::map<SequenceId, WindowOutput>;

void step_windows(Engine& engine, WindowOutputs& outputs) {
  for (const Update& update : engine.step()) {
    WindowOutput& output = outputs[update.id];
    output.tokens.insert(output.tokens.end(), update.tokens.begin(), update.tokens.end());
    for (const TokenLogprobs& logprobs : update.logprobs)
      output.logprobs.push_back(logprobs.logprob);
    if (update.finish) {
      EXPECT_EQ(update.finish->message, "");
    }
  }
}

WindowOutput run_window(Engine& engine, const Request& request) {
  const RequestId id = engine.add(request);
  WindowOutputs outputs;
  while (engine.has_work())
    step_windows(engine, outputs);
  return outputs[{.request = id, .sample = 0}];
}

class EngineWindows : public testing::Test {
 protected:
  // With a cache so large that nothing of a sequence is overwritten.
  WindowOutput want(const Request& request) {
    EngineConfig config = window_config(1000);
    config.enable_prefix_caching = false;
    config.max_num_batched_tokens = 500;
    Engine engine(open_, nullptr, config);
    return run_window(engine, request);
  }

  WindowedModel model_{kWindow};
  models::OpenModel open_{model_.path()};
};

TEST_F(EngineWindows, ASequenceMayBeLongerThanTheCache) {
  EXPECT_EQ(open_.blueprint().attention_window(), kWindow);
  const std::vector<TokenId> without_engine =
      models::generate_greedy(open_.model(), window_prompt(200), 90);
  const Request request = window_request(window_prompt(200), 90);
  const WindowOutput full = want(request);
  EXPECT_EQ(full.tokens, without_engine);
  for (const std::int64_t budget : {500, 33, 8}) {
    Engine engine(open_, nullptr, window_config(14, budget));  // 56 tokens
    EXPECT_EQ(run_window(engine, request), full) << budget;
    EXPECT_EQ(engine.stats().num_preemptions, 0);
    EXPECT_GT(engine.stats().num_out_of_window_blocks, (290 - kWindow) / 4 - 2);
    EXPECT_EQ(engine.stats().blocks.num_used, 0);
  }
  // The window alone fills this cache.
  Engine small(open_, nullptr, window_config(6));
  EXPECT_THROW(small.add(request), Error);
}

TEST_F(EngineWindows, ManySequencesShareASmallCache) {
  Engine engine(open_, nullptr, window_config(20, 32));
  std::map<RequestId, Request> requests;
  WindowOutputs outputs;
  std::mt19937 random(3);
  for (int i = 0; i < 16; ++i) {
    // Short prompts outgrow what they needed at first.
    Request request =
        window_request(window_prompt(i % 3 == 0 ? 6 : 20 + 13 * i % 150, i % 3), 20 + i % 40);
    if (i % 5 == 0) request.params.n = 2;
    if (i % 5 == 0) request.params.temperature = 0.8;
    request.params.seed = static_cast<std::uint64_t>(i);
    requests[engine.add(request)] = request;
    for (unsigned k = random() % 4; k > 0; --k)
      step_windows(engine, outputs);
  }
  while (engine.has_work())
    step_windows(engine, outputs);
  EXPECT_GT(engine.stats().num_preemptions, 0);
  EXPECT_EQ(engine.stats().blocks.num_used, 0);
  for (const auto& [id, request] : requests)
    EXPECT_EQ((outputs[{.request = id, .sample = 0}]), want(request)) << "request " << id;
}

TEST_F(EngineWindows, PrefixesAreFoundAfterTheirBlocksWereFreed) {
  const Request request = window_request(window_prompt(120), 30);
  const WindowOutput full = want(request);
  Engine engine(open_, nullptr, window_config(100));
  EXPECT_EQ(run_window(engine, request), full);
  const RequestId id = engine.add(request);
  WindowOutputs outputs;
  step_windows(engine, outputs);
  EXPECT_EQ(engine.stats().num_hit_tokens, 116);
  // Only the blocks of the window are held.
  EXPECT_LE(engine.stats().blocks.num_used, kWindow / 4 + 2);
  while (engine.has_work())
    step_windows(engine, outputs);
  EXPECT_EQ((outputs[{.request = id, .sample = 0}]), full);
}

TEST_F(EngineWindows, SnapshotsHaveTheBlocksOfTheWindow) {
  const TempDir folder;
  const auto path = folder / "saved";
  const Request request = window_request(window_prompt(100), 40);
  const WindowOutput full = want(request);
  for (const int num_steps : {1, 3, 5, 20}) {
    WindowOutput before;
    {
      Engine engine(open_, nullptr, window_config(14, 40));
      const RequestId id = engine.add(request);
      WindowOutputs outputs;
      for (int i = 0; i < num_steps; ++i)
        step_windows(engine, outputs);
      engine.save({.request = id, .sample = 0}, path);
      before = outputs[{.request = id, .sample = 0}];
    }
    const Snapshot snapshot = read_snapshot(path);
    EXPECT_EQ(snapshot.first_block > 0, num_steps > 1) << num_steps;
    const auto num_blocks =
        static_cast<std::int64_t>(snapshot.blocks.size() / snapshot.block_bytes);
    EXPECT_LE(num_blocks, (kWindow + 40) / 4 + 2);
    for (const std::int64_t block_tokens : {4, 8}) {
      EngineConfig config = window_config(14, 40);
      config.kvcache_block_size = block_tokens;
      Engine engine(open_, nullptr, config);
      const RequestId id = engine.restore(path);
      WindowOutputs outputs;
      while (engine.has_work())
        step_windows(engine, outputs);
      WindowOutput all = before;
      const WindowOutput& rest = outputs[{.request = id, .sample = 0}];
      all.tokens.insert(all.tokens.end(), rest.tokens.begin(), rest.tokens.end());
      all.logprobs.insert(all.logprobs.end(), rest.logprobs.begin(), rest.logprobs.end());
      EXPECT_EQ(all, full) << num_steps << " steps, blocks of " << block_tokens;
    }
    if (snapshot.first_block > 0) {
      // The same weights, with layers that would read the missing blocks.
      models::OpenModel no_window(golden_checkpoint("llama"));
      Engine other(no_window, nullptr, window_config(100));
      EXPECT_THROW(other.restore(path), Error);
    }
    Snapshot forged = snapshot;
    forged.first_block = (forged.num_computed + 3) / 4;
    forged.blocks.clear();
    Engine engine(open_, nullptr, window_config(14, 40));
    EXPECT_THROW(engine.restore(forged, "forged"), Error);
  }
}

TEST_F(EngineWindows, TiersGiveBackFreedBlocks) {
  const Request request = window_request(window_prompt(150), 20);
  const Request other = window_request(window_prompt(150, 77), 20);
  const WindowOutput full = want(request);
  const WindowOutput other_full = want(other);
  // A cache that holds the prompt, and one that does not.
  for (const std::int64_t num_blocks : {60, 14}) {
    EngineConfig config = window_config(num_blocks, 40);
    config.kv_host_bytes = 64U << 20U;
    Engine engine(open_, nullptr, config);
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(run_window(engine, request), full) << num_blocks;
      EXPECT_EQ(run_window(engine, other), other_full) << num_blocks;
      engine.release_idle_memory();
    }
    EXPECT_GT(engine.stats().host_tier.num_hits, 0) << num_blocks;
    EXPECT_EQ(engine.stats().blocks.num_used, 0);
  }
}

// Layers without a window read all blocks.
TEST(EngineMixedWindows, NothingIsFreed) {
  for (const char* name : {"gemma3", "gpt-oss", "deepseek-v4", "llama4"}) {
    models::OpenModel open(golden_checkpoint(name));
    EXPECT_EQ(open.blueprint().attention_window(), 0) << name;
    Engine engine(open, nullptr, window_config(100));
    run_window(engine, window_request(window_prompt(100), 4));
    EXPECT_EQ(engine.stats().num_out_of_window_blocks, 0) << name;
  }
}

}  // namespace
}  // namespace graft::engine
