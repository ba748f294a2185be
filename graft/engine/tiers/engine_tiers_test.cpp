// The KV cache tiers through the engine: loads from host memory and disk, restarts, preemption and
// every fault give, bit for bit, the tokens and logprobs of an engine without tiers.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/engine/engine.h"
#include "graft/testing/golden.h"
#include "graft/testing/test_names.h"

namespace graft::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTierBlock = 4;
constexpr std::uint64_t kTierBytes = 64U << 20U;

struct TierOutput {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::int64_t num_cached = 0;

  bool operator==(const TierOutput& other) const {
    return tokens == other.tokens && logprobs == other.logprobs;
  }
};
using TierOutputs = std::map<SequenceId, TierOutput>;

std::vector<TokenId> tier_prompt(std::int64_t length, std::int64_t seed = 11) {
  std::vector<TokenId> prompt;
  for (std::int64_t i = 0; i < length; ++i)
    prompt.push_back(static_cast<TokenId>((i * 29 + seed) % 250));
  return prompt;
}

Request tier_request(std::vector<TokenId> prompt, std::int64_t max_tokens = 6) {
  Request request;
  request.prompt = std::move(prompt);
  request.params.temperature = 0;
  request.params.max_tokens = max_tokens;
  request.params.ignore_eos = true;
  request.params.logprobs = 1;
  return request;
}

void collect_tiers(const std::vector<Update>& updates, TierOutputs& outputs) {
  for (const Update& update : updates) {
    TierOutput& output = outputs[update.id];
    output.tokens.insert(output.tokens.end(), update.tokens.begin(), update.tokens.end());
    for (const TokenLogprobs& logprobs : update.logprobs)
      output.logprobs.push_back(logprobs.logprob);
    output.num_cached = update.num_cached;
  }
}

TierOutput run_request(Engine& engine, const Request& request) {
  const RequestId id = engine.add(request);
  TierOutputs outputs;
  while (engine.has_work())
    collect_tiers(engine.step(), outputs);
  return outputs[{.request = id, .sample = 0}];
}

// Leaves the device without cached blocks: what is found afterwards comes from a tier.
TierOutput run_after_release(Engine& engine, const Request& request) {
  engine.release_idle_memory();
  return run_request(engine, request);
}

class EngineTiers : public testing::TestWithParam<const char*> {
 protected:
  EngineTiers() : open_(golden_checkpoint(GetParam())) {}

  EngineConfig config(std::uint64_t host, std::uint64_t disk) const {
    EngineConfig config;
    config.max_num_seqs = 8;
    config.num_kvcache_blocks = 200;
    config.kvcache_block_size = kTierBlock;
    config.max_model_len = 256;
    config.kv_host_bytes = host;
    config.kv_disk_bytes = disk;
    config.kv_dir = dir();
    return config;
  }
  fs::path dir() const { return temp_ / "kv"; }

  static void always_load(Engine& engine) { engine.tiers()->set_policy({.always_load = true}); }

  TierOutput alone(const Request& request) {
    EngineConfig config = this->config(0, 0);
    config.enable_prefix_caching = false;
    Engine engine(open_, nullptr, config);
    return run_request(engine, request);
  }

  models::OpenModel open_;
  TempDir temp_;
};

TEST_P(EngineTiers, BlocksComeBackFromHostMemory) {
  const Request request = tier_request(tier_prompt(41));
  const TierOutput want = alone(request);
  Engine engine(open_, nullptr, config(kTierBytes, 0));
  always_load(engine);
  EXPECT_EQ(run_request(engine, request), want);
  const TierOutput again = run_after_release(engine, request);
  EXPECT_EQ(again, want);
  EXPECT_EQ(again.num_cached, 40);
  const EngineStats stats = engine.stats();
  EXPECT_GE(stats.host_tier.num_loads, 10);
  EXPECT_GE(stats.host_tier.num_stores, 10);
  EXPECT_GT(stats.host_tier.bytes, 0U);
  EXPECT_EQ(stats.disk_tier.capacity, 0U);
}

TEST_P(EngineTiers, BlocksComeBackFromDiskAfterARestart) {
  const Request request = tier_request(tier_prompt(41));
  const TierOutput want = alone(request);
  {
    Engine engine(open_, nullptr, config(0, kTierBytes));
    EXPECT_EQ(run_request(engine, request), want);
  }
  for (const std::uint64_t host : {std::uint64_t{0}, kTierBytes}) {
    Engine engine(open_, nullptr, config(host, kTierBytes));
    always_load(engine);
    const TierOutput again = run_request(engine, request);
    EXPECT_EQ(again, want);
    EXPECT_EQ(again.num_cached, 40);
    EXPECT_GE(engine.stats().disk_tier.num_loads, 10);
  }
}

// A conversation goes on after the output of its last turn.
TEST_P(EngineTiers, TheNextTurnLoadsTheOutputOfTheLast) {
  const Request first = tier_request(tier_prompt(21), 15);
  Engine engine(open_, nullptr, config(kTierBytes, 0));
  always_load(engine);
  std::vector<TokenId> turn = first.prompt;
  const TierOutput output = run_request(engine, first);
  turn.insert(turn.end(), output.tokens.begin(), output.tokens.end());
  const std::vector<TokenId> more = tier_prompt(9, 5);
  turn.insert(turn.end(), more.begin(), more.end());
  const TierOutput second = run_after_release(engine, tier_request(turn));
  // 36 tokens; the last one was sampled, not computed.
  EXPECT_EQ(second.num_cached, 32);
  engine.release_idle_memory();
  EXPECT_EQ(second.tokens.size(), 6U);
}

// The blocks of a preempted sequence come back from the host tier.
TEST_P(EngineTiers, PreemptionSwapsInsteadOfRecomputing) {
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < 6; ++i)
    requests.push_back(tier_request(tier_prompt(10 + i, i), 40));
  std::vector<TierOutput> want;
  for (const Request& request : requests)
    want.push_back(alone(request));
  std::int64_t num_recomputed = 0;
  for (const std::uint64_t host : {std::uint64_t{0}, kTierBytes}) {
    EngineConfig small = config(host, 0);
    small.num_kvcache_blocks = 28;
    Engine engine(open_, nullptr, small);
    if (host > 0) always_load(engine);
    std::map<RequestId, std::size_t> ids;
    for (std::size_t i = 0; i < requests.size(); ++i)
      ids[engine.add(requests[i])] = i;
    TierOutputs outputs;
    while (engine.has_work())
      collect_tiers(engine.step(), outputs);
    for (const auto& [id, i] : ids)
      EXPECT_EQ((outputs[{.request = id, .sample = 0}]), want[i]) << "request " << i;
    EXPECT_GT(engine.stats().num_preemptions, 0);
    if (host == 0) {
      num_recomputed = engine.stats().num_computed_tokens;
    } else {
      EXPECT_LT(engine.stats().num_computed_tokens, num_recomputed);
      EXPECT_GT(engine.stats().host_tier.num_loads, 0);
    }
  }
}

TEST_P(EngineTiers, SharedPrefixesForksAndBatchesKeepTheirBits) {
  Request forked = tier_request(tier_prompt(30));
  forked.params.temperature = 0.9;
  forked.params.seed = 5;
  forked.params.n = 3;
  const std::vector<Request> requests = {tier_request(tier_prompt(30)), forked,
                                         tier_request(tier_prompt(50)),
                                         tier_request(tier_prompt(25, 3))};
  const auto run = [&](Engine& engine) {
    std::map<RequestId, std::size_t> ids;
    for (std::size_t i = 0; i < requests.size(); ++i)
      ids[engine.add(requests[i])] = i;
    TierOutputs outputs;
    TierOutputs by_index;
    while (engine.has_work())
      collect_tiers(engine.step(), outputs);
    for (const auto& [id, output] : outputs)
      by_index[{.request = ids.at(id.request), .sample = id.sample}] = output;
    return by_index;
  };
  TierOutputs want;
  {
    Engine engine(open_, nullptr, config(0, 0));
    want = run(engine);
  }
  ASSERT_EQ(want.size(), 6U);
  for (int restart = 0; restart < 2; ++restart) {
    Engine engine(open_, nullptr, config(kTierBytes / 2, kTierBytes));
    always_load(engine);
    EXPECT_EQ(run(engine), want) << "restart " << restart;
    engine.release_idle_memory();
    EXPECT_EQ(run(engine), want) << "restart " << restart;
    EXPECT_EQ(engine.stats().blocks.num_used, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         EngineTiers,
                         testing::Values("llama",
                                         "deepseek-v3",
                                         "deepseek-v3.2",
                                         "deepseek-v4",
                                         "gemma3",
                                         "gpt-oss",
                                         "phi3",
                                         "qwen3-next",
                                         "qwen3.5-moe"),
                         checkpoint_test_name);

class EngineTierFaults : public EngineTiers {
 protected:
  // Fills the disk tier with the blocks of a prompt.
  TierOutput fill(const Request& request) {
    Engine engine(open_, nullptr, config(0, kTierBytes));
    return run_request(engine, request);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> paths;
    for (const DiskFile& file : scan_folder(dir()))
      paths.push_back(block_path(dir(), file.key));
    return paths;
  }
};

TEST_P(EngineTierFaults, DamagedFilesAreRecomputed) {
  const Request request = tier_request(tier_prompt(41));
  const TierOutput want = fill(request);
  ASSERT_GE(files().size(), 10U);
  std::size_t count = 0;
  for (const fs::path& path : files()) {
    if (count++ % 3 == 0) fs::resize_file(path, fs::file_size(path) / 2);
    if (count % 3 == 1) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-1, std::ios::end);
      file.put('~');
    }
  }
  Engine engine(open_, nullptr, config(0, kTierBytes));
  always_load(engine);
  EXPECT_EQ(run_request(engine, request), want);
  EXPECT_GT(engine.stats().disk_tier.num_errors, 0);
  // A load ends at the first damaged block, which is then written again.
  std::int64_t num_cached = 0;
  for (int i = 0; i < 20 && num_cached < 40; ++i) {
    engine.tiers()->flush();
    const TierOutput got = run_after_release(engine, request);
    EXPECT_EQ(got, want);
    num_cached = got.num_cached;
  }
  EXPECT_EQ(num_cached, 40);
}

TEST_P(EngineTierFaults, ADeletedFolderIsRecomputed) {
  const Request request = tier_request(tier_prompt(41));
  const TierOutput want = fill(request);
  Engine engine(open_, nullptr, config(0, kTierBytes));
  always_load(engine);
  fs::remove_all(dir());
  const TierOutput got = run_request(engine, request);
  EXPECT_EQ(got, want);
  EXPECT_EQ(got.num_cached, 0);
}

// The disk delivers nothing until the other sequence has ended.
TEST_P(EngineTierFaults, ASlowDiskDelaysNoOtherSequence) {
  const Request slow = tier_request(tier_prompt(41));
  const Request other = tier_request(tier_prompt(30, 77), 20);
  const TierOutput want = fill(slow);
  const TierOutput want_other = alone(other);
  std::promise<void> disk;
  const std::shared_future<void> is_ready = disk.get_future().share();
  Engine engine(open_, nullptr, config(0, kTierBytes));
  engine.tiers()->set_policy({.always_load = true,
                              .max_load_seconds = 600,
                              .before_read = [is_ready] { is_ready.wait(); }});
  const SequenceId slow_id = {.request = engine.add(slow), .sample = 0};
  const SequenceId other_id = {.request = engine.add(other), .sample = 0};
  TierOutputs outputs;
  while (outputs[other_id].tokens.size() < 20) {
    collect_tiers(engine.step(), outputs);
    EXPECT_EQ(engine.stats().num_loading, 1);
    EXPECT_TRUE(outputs[slow_id].tokens.empty());
  }
  disk.set_value();
  while (engine.has_work())
    collect_tiers(engine.step(), outputs);
  EXPECT_EQ(outputs[slow_id], want);
  EXPECT_EQ(outputs[slow_id].num_cached, 40);
  EXPECT_EQ(outputs[other_id], want_other);
}

TEST_P(EngineTierFaults, ALateLoadIsRecomputed) {
  const Request request = tier_request(tier_prompt(41));
  const TierOutput want = fill(request);
  std::promise<void> disk;
  const std::shared_future<void> is_ready = disk.get_future().share();
  Engine engine(open_, nullptr, config(0, kTierBytes));
  engine.tiers()->set_policy({.always_load = true,
                              .max_load_seconds = 0.05,
                              .before_read = [is_ready] { is_ready.wait(); }});
  const TierOutput got = run_request(engine, request);
  disk.set_value();
  EXPECT_EQ(got, want);
  EXPECT_EQ(got.num_cached, 0);
}

TEST_P(EngineTierFaults, AnAbortedLoadLeavesNothing) {
  const Request request = tier_request(tier_prompt(41));
  const TierOutput want = fill(request);
  Engine engine(open_, nullptr, config(0, kTierBytes));
  engine.tiers()->set_policy({.always_load = true, .before_read = [] {
                                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                              }});
  const RequestId id = engine.add(request);
  engine.step();
  EXPECT_EQ(engine.stats().num_loading, 1);
  EXPECT_TRUE(engine.abort(id));
  while (engine.has_work())
    engine.step();
  EXPECT_EQ(engine.stats().blocks.num_used, 0);
  always_load(engine);
  EXPECT_EQ(run_request(engine, request), want);
}

TEST_P(EngineTierFaults, SaltsAndLayoutsDoNotShareBlocks) {
  Request request = tier_request(tier_prompt(41));
  request.cache_salt = 7;
  fill(request);
  {
    Engine engine(open_, nullptr, config(0, kTierBytes));
    always_load(engine);
    EXPECT_EQ(run_request(engine, request).num_cached, 40);
    request.cache_salt = 8;
    EXPECT_EQ(run_request(engine, request).num_cached, 0);
    request.cache_salt = 0;
    EXPECT_EQ(run_request(engine, request).num_cached, 0);
  }
  request.cache_salt = 7;
  EngineConfig other = config(0, kTierBytes);
  other.kvcache_block_size = 2 * kTierBlock;
  Engine engine(open_, nullptr, other);
  EXPECT_EQ(run_request(engine, request).num_cached, 0);
}

TEST_P(EngineTierFaults, RecomputesWhereLoadingIsSlower) {
  const Request request = tier_request(tier_prompt(41));
  const TierOutput want = fill(request);
  Engine engine(open_, nullptr, config(0, kTierBytes));
  engine.tiers()->record_prefill(1'000'000'000, 1e-3);  // far faster than any disk
  engine.tiers()->record_fill(1, 1);
  const TierOutput got = run_request(engine, request);
  EXPECT_EQ(got, want);
  EXPECT_EQ(got.num_cached, 0);
  EXPECT_EQ(engine.stats().disk_tier.num_loads, 0);
}

TEST_P(EngineTierFaults, InvalidConfigurationsAreErrors) {
  EngineConfig bad = config(0, kTierBytes);
  bad.kv_dir.clear();
  EXPECT_THROW(Engine(open_, nullptr, bad), Error);
  bad = config(kTierBytes, 0);
  bad.enable_prefix_caching = false;
  EXPECT_THROW(Engine(open_, nullptr, bad), Error);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         EngineTierFaults,
                         testing::Values("llama", "qwen3-next"),
                         checkpoint_test_name);

}  // namespace
}  // namespace graft::engine
