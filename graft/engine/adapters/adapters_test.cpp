// Adapters in the engine: mixed batches, the prefix cache, unloading, saved sequences.

#include "graft/engine/adapters/adapters.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/str.h"
#include "graft/engine/engine.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"

namespace graft::engine {
namespace {

models::OpenOptions with_adapters() {
  models::OpenOptions options;
  options.adapters = {{.name = "a", .path = golden_adapter("llama-lora-a")},
                      {.name = "b", .path = golden_adapter("llama-lora-b")}};
  return options;
}

EngineConfig adapter_config() {
  EngineConfig config;
  config.max_model_len = 256;
  config.num_kvcache_blocks = 60;
  config.kvcache_block_size = 16;
  config.max_num_batched_tokens = 24;
  config.max_num_seqs = 8;
  return config;
}

struct Result {
  std::vector<TokenId> tokens;
  std::int64_t num_cached = 0;
  FinishReason reason = FinishReason::Error;

  bool operator==(const Result&) const = default;
};

void collect(Engine& engine, std::map<SequenceId, Result>& results) {
  for (const Update& update : engine.step()) {
    Result& result = results[update.id];
    result.tokens.insert(result.tokens.end(), update.tokens.begin(), update.tokens.end());
    result.num_cached = update.num_cached;
    if (update.finish) result.reason = update.finish->reason;
  }
}

std::map<SequenceId, Result> run_all(Engine& engine) {
  std::map<SequenceId, Result> results;
  while (engine.has_work())
    collect(engine, results);
  return results;
}

Request request_for(const Engine& engine,
                    const std::string& adapter,
                    std::int64_t max_tokens = 12) {
  Request request;
  for (TokenId token = 0; token < 40; ++token)
    request.prompt.push_back(token * 7 % 300);
  request.params.max_tokens = max_tokens;
  request.params.ignore_eos = true;
  request.params.temperature = 0;
  if (!adapter.empty()) request.adapter = engine.adapters().find(adapter);
  return request;
}

TEST(EngineAdapters, ABatchMixesThemAndAnswersAsAlone) {
  models::OpenModel open(golden_checkpoint("llama"), with_adapters());
  const std::vector<std::string> names = {"a", "", "b", "a", ""};
  std::map<std::string, Result> alone;
  for (const std::string name : {"", "a", "b"}) {
    EngineConfig config = adapter_config();
    config.enable_prefix_caching = false;
    Engine engine(open, nullptr, config);
    engine.add(request_for(engine, name));
    alone[name] = run_all(engine).begin()->second;
    EXPECT_EQ(alone[name].reason, FinishReason::Length);
  }
  EXPECT_NE(alone["a"].tokens, alone[""].tokens);
  EXPECT_NE(alone["a"].tokens, alone["b"].tokens);
  Engine engine(open, nullptr, adapter_config());
  std::vector<RequestId> ids;
  for (const std::string& name : names)
    ids.push_back(engine.add(request_for(engine, name)));
  const auto results = run_all(engine);
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(results.at({ids[i], 0}).tokens, alone[names[i]].tokens) << names[i];
}

TEST(EngineAdapters, TheModelWithoutThemAnswersTheSame) {
  models::OpenModel plain(golden_checkpoint("llama"));
  models::OpenModel open(golden_checkpoint("llama"), with_adapters());
  Engine without(plain, nullptr, adapter_config());
  Engine with(open, nullptr, adapter_config());
  without.add(request_for(without, ""));
  with.add(request_for(with, ""));
  EXPECT_EQ(run_all(with), run_all(without));
}

TEST(EngineAdapters, PrefixesAreSharedWithinAnAdapterOnly) {
  models::OpenModel open(golden_checkpoint("llama"), with_adapters());
  Engine engine(open, nullptr, adapter_config());
  const auto cached = [&](const std::string& adapter) {
    engine.add(request_for(engine, adapter));
    return run_all(engine).begin()->second.num_cached;
  };
  EXPECT_EQ(cached("a"), 0);
  EXPECT_EQ(cached(""), 0);
  EXPECT_EQ(cached("b"), 0);
  EXPECT_EQ(cached("a"), 32);
  EXPECT_EQ(cached(""), 32);
  EXPECT_EQ(cached("b"), 32);
}

// Other matrices under the same name share nothing; the same ones under another name do.
TEST(EngineAdapters, PrefixesBelongToTheMatricesNotTheName) {
  models::OpenModel open(golden_checkpoint("llama"), with_adapters());
  Engine engine(open, nullptr, adapter_config());
  const auto cached = [&](const std::string& adapter) {
    engine.add(request_for(engine, adapter));
    return run_all(engine).begin()->second.num_cached;
  };
  EXPECT_EQ(cached("a"), 0);
  EXPECT_TRUE(engine.remove_adapter("a"));
  const auto load = [&](const std::string& name, const char* path, double scale) {
    engine.add_adapter(models::Adapter({.name = name, .path = golden_adapter(path), .scale = scale},
                                       open.source(), open.blueprint()));
  };
  load("a", "llama-lora-a", 0.5);
  EXPECT_EQ(cached("a"), 0);
  load("again", "llama-lora-a", 1.0);
  EXPECT_EQ(cached("again"), 32);
}

TEST(EngineAdapters, ARemovedAdapterServesItsRequestsToTheEnd) {
  models::OpenModel open(golden_checkpoint("llama"), with_adapters());
  Result alone;
  {
    Engine engine(open, nullptr, adapter_config());
    engine.add(request_for(engine, "a", 20));
    alone = run_all(engine).begin()->second;
  }
  Engine engine(open, nullptr, adapter_config());
  const RequestId id = engine.add(request_for(engine, "a", 20));
  std::map<SequenceId, Result> results;
  for (int step = 0; step < 5; ++step)
    collect(engine, results);
  const std::uint64_t before = open.model().adapter_bytes().at(kCpu);
  EXPECT_TRUE(engine.remove_adapter("a"));
  EXPECT_FALSE(engine.remove_adapter("a"));
  EXPECT_EQ(engine.adapters().find("a"), nullptr);
  EXPECT_EQ(open.model().adapter_bytes().at(kCpu), before);
  while (engine.has_work())
    collect(engine, results);
  EXPECT_EQ(results.at({id, 0}).tokens, alone.tokens);
  EXPECT_LT(open.model().adapter_bytes().at(kCpu), before);
  EXPECT_EQ(engine.adapters().list().size(), 1U);
}

TEST(EngineAdapters, ATakenNameIsAnError) {
  models::OpenModel open(golden_checkpoint("llama"), with_adapters());
  Engine engine(open, nullptr, adapter_config());
  const models::Adapter again({.name = "a", .path = golden_adapter("llama-lora-b")}, open.source(),
                              open.blueprint());
  EXPECT_THROW(engine.add_adapter(again), Error);
}

TEST(EngineAdapters, SavedSequencesContinueWithTheirs) {
  const TempDir folder;
  models::OpenModel open(golden_checkpoint("llama"), with_adapters());
  Engine engine(open, nullptr, adapter_config());
  const RequestId id = engine.add(request_for(engine, "b", 20));
  std::map<SequenceId, Result> results;
  while (results[{id, 0}].tokens.size() < 5)
    collect(engine, results);
  const std::size_t num_before = results[{id, 0}].tokens.size();
  engine.save({id, 0}, folder / "s");
  while (engine.has_work())
    collect(engine, results);
  const std::vector<TokenId>& all = results[{id, 0}].tokens;
  {
    Engine other(open, nullptr, adapter_config());
    other.restore(folder / "s");
    const auto rest = run_all(other).begin()->second.tokens;
    ASSERT_FALSE(rest.empty());
    EXPECT_EQ(rest, std::vector<TokenId>(all.end() - std::ssize(rest), all.end()));
    EXPECT_LE(rest.size(), all.size() - num_before + 1);
  }
  models::OpenModel plain(golden_checkpoint("llama"));
  Engine without(plain, nullptr, adapter_config());
  try {
    without.restore(folder / "s");
    FAIL() << "restored without its adapter";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the adapter 'b'"), std::string::npos) << error.what();
  }
}

// All requests are of one client: those of one adapter do not delay another adapter's.
TEST(EngineAdapters, ShareTheSlotsEqually) {
  models::OpenModel open(golden_checkpoint("llama"), with_adapters());
  EngineConfig config = adapter_config();
  config.max_num_seqs = 2;
  Engine engine(open, nullptr, config);
  RequestId last_of_a = 0;
  for (int i = 0; i < 6; ++i)
    last_of_a = engine.add(request_for(engine, "a", 20));
  const RequestId of_b = engine.add(request_for(engine, "b", 20));
  const RequestId of_base = engine.add(request_for(engine, "", 20));
  std::vector<RequestId> ended;
  while (engine.has_work()) {
    for (const Update& update : engine.step()) {
      if (update.finish) ended.push_back(update.id.request);
    }
  }
  const auto place = [&](RequestId id) { return std::ranges::find(ended, id) - ended.begin(); };
  EXPECT_LT(place(of_b), 4);
  EXPECT_LT(place(of_base), 5);
  EXPECT_EQ(place(last_of_a), 7);
}

// Preempted sequences are computed again, with their adapter.
TEST(EngineAdapters, PreemptionKeepsThem) {
  models::OpenModel open(golden_checkpoint("llama"), with_adapters());
  EngineConfig config = adapter_config();
  config.num_kvcache_blocks = 8;
  config.max_model_len = 100;
  config.enable_prefix_caching = false;
  const auto run = [&](const EngineConfig& with, std::int64_t& num_preemptions) {
    Engine engine(open, nullptr, with);
    for (const char* name : {"a", "b", "a"})
      engine.add(request_for(engine, name, 40));
    auto results = run_all(engine);
    num_preemptions = engine.stats().num_preemptions;
    return results;
  };
  std::int64_t num_preemptions = 0;
  const auto want = run(adapter_config(), num_preemptions);
  EXPECT_EQ(num_preemptions, 0);
  const auto got = run(config, num_preemptions);
  EXPECT_GT(num_preemptions, 0);
  for (const auto& [id, result] : want)
    EXPECT_EQ(got.at(id).tokens, result.tokens);
}

// Decode passes are captured graphs there, keyed by whether a row has an adapter.
TEST(EngineAdapters, GraphsOfADeviceMixThem) {
  const auto run = [](const char* device, bool is_eager) {
    models::OpenOptions options = with_adapters();
    options.rules = str("- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: \"",
                        device, "\"}}}\n");
    options.machine.num_gpus = 1;
    options.operators = ops::testing::with_test_devices;
    options.num_threads = 1;
    models::OpenModel open(golden_checkpoint("llama"), options);
    EngineConfig config = adapter_config();
    config.enforce_eager = is_eager;
    Engine engine(open, nullptr, config);
    std::int64_t max_tokens = 6;
    for (const char* name : {"a", "", "b", "", "a"})
      engine.add(request_for(engine, name, max_tokens += 5));
    auto results = run_all(engine);
    EXPECT_TRUE(engine.remove_adapter("a"));
    engine.add(request_for(engine, "b", 12));
    results.merge(run_all(engine));
    if (std::string(device) != "cpu" && !is_eager) {
      EXPECT_GT(open.model().num_graph_replays(), 0);
    }
    std::vector<std::vector<TokenId>> tokens;
    for (const auto& [id, result] : results)
      tokens.push_back(result.tokens);
    return tokens;
  };
  const auto want = run("cpu", false);
  EXPECT_EQ(run("cuda:0", true), want);
  EXPECT_EQ(run("cuda:0", false), want);
}

}  // namespace
}  // namespace graft::engine
