// The KV cache tiers with caches on devices, whose blocks are copied beside the passes: the same
// tokens as without tiers, and a failing device ends requests instead of storing wrong blocks.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/engine/engine.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"

namespace graft::engine {
namespace {

using ops::testing::test_fault;

constexpr std::uint64_t kDeviceTierBytes = 64U << 20U;

struct DeviceTierCase {
  const char* name;
  const char* rules;
  const char* model;
};

constexpr const char* kOneDevice =
    "- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: \"cuda:0\"}}}\n";
// Layer 0 on the CPU, layer 1 on the second device, the others on the first.
constexpr const char* kThreeDevices = R"yaml(
- match: {name: "layers[.]0[.]"}
  replace: {class: default, kwargs: {device: cpu}}
- match: {name: "layers[.]1[.]"}
  replace: {class: default, kwargs: {device: "cuda:1"}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

class DeviceTiers : public testing::TestWithParam<DeviceTierCase> {
 protected:
  void TearDown() override { test_fault() = {}; }

  static models::OpenOptions options() {
    models::OpenOptions options;
    options.rules = GetParam().rules;
    options.machine.num_gpus = 2;
    options.operators = ops::testing::with_test_devices;
    options.num_threads = 1;
    return options;
  }
  EngineConfig config(std::uint64_t host, std::uint64_t disk) const {
    EngineConfig config;
    config.max_num_seqs = 4;
    config.num_kvcache_blocks = 28;
    config.kvcache_block_size = 4;
    config.max_model_len = 100;
    config.kv_host_bytes = host;
    config.kv_disk_bytes = disk;
    config.kv_dir = temp_ / "kv";
    return config;
  }
  static std::vector<Request> requests() {
    std::vector<Request> requests(6);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (std::size_t t = 0; t < 21 + i; ++t)
        requests[i].prompt.push_back(static_cast<TokenId>((t * 29 + 11 * (i / 2)) % 250));
      requests[i].params.temperature = 0;
      requests[i].params.max_tokens = 20;
      requests[i].params.ignore_eos = true;
    }
    return requests;
  }

  struct Output {
    std::vector<TokenId> tokens;
    FinishReason reason = FinishReason::Abort;
  };
  static std::vector<Output> run(Engine& engine) {
    std::map<RequestId, std::size_t> ids;
    std::vector<Output> outputs;
    for (const Request& request : requests()) {
      ids[engine.add(request)] = outputs.size();
      outputs.emplace_back();
    }
    for (int step = 0; engine.has_work() && step < 100'000; ++step) {
      for (const Update& update : engine.step()) {
        Output& output = outputs[ids.at(update.id.request)];
        output.tokens.insert(output.tokens.end(), update.tokens.begin(), update.tokens.end());
        if (update.finish) output.reason = update.finish->reason;
      }
    }
    EXPECT_FALSE(engine.has_work());
    EXPECT_EQ(engine.stats().blocks.num_used, 0);
    return outputs;
  }
  static std::vector<std::vector<TokenId>> tokens_of(const std::vector<Output>& outputs) {
    std::vector<std::vector<TokenId>> tokens;
    for (const Output& output : outputs)
      tokens.push_back(output.tokens);
    return tokens;
  }

  TempDir temp_;
};

TEST_P(DeviceTiers, BlocksComeBack) {
  models::OpenModel open(golden_checkpoint(GetParam().model), options());
  std::vector<std::vector<TokenId>> want;
  {
    Engine engine(open, nullptr, config(0, 0));
    want = tokens_of(run(engine));
    EXPECT_GT(engine.stats().num_preemptions, 0);
  }
  for (const bool has_disk : {false, true}) {
    Engine engine(open, nullptr, config(kDeviceTierBytes, has_disk ? kDeviceTierBytes : 0));
    engine.tiers()->set_policy({.always_load = true});
    EXPECT_EQ(tokens_of(run(engine)), want);
    engine.release_idle_memory();
    EXPECT_EQ(tokens_of(run(engine)), want);
    EXPECT_GT(engine.stats().host_tier.num_loads, 10);
    EXPECT_EQ(engine.stats().host_tier.num_errors, 0);
  }
  Engine restarted(open, nullptr, config(0, kDeviceTierBytes));
  restarted.tiers()->set_policy({.always_load = true});
  EXPECT_EQ(tokens_of(run(restarted)), want);
  EXPECT_GT(restarted.stats().disk_tier.num_loads, 10);
}

// What a failing device leaves behind is never used again.
TEST_P(DeviceTiers, AFailureStoresNoWrongBlock) {
  models::OpenModel open(golden_checkpoint(GetParam().model), options());
  std::vector<std::vector<TokenId>> want;
  {
    Engine engine(open, nullptr, config(0, 0));
    want = tokens_of(run(engine));
  }
  for (std::int64_t countdown = 150; countdown < 4'000; countdown += 550) {
    SCOPED_TRACE(countdown);
    Engine engine(open, nullptr, config(kDeviceTierBytes, 0));
    engine.tiers()->set_policy({.always_load = true});
    test_fault().countdown = countdown;
    const std::vector<Output> outputs = run(engine);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].reason != FinishReason::Error) {
        EXPECT_EQ(outputs[i].tokens, want[i]);
      }
    }
    test_fault() = {};
    EXPECT_EQ(tokens_of(run(engine)), want);
  }
}

INSTANTIATE_TEST_SUITE_P(Placements,
                         DeviceTiers,
                         testing::Values(DeviceTierCase{"OneDevice", kOneDevice, "deepseek-v3"},
                                         DeviceTierCase{"ThreeDevices", kThreeDevices, "llama"},
                                         DeviceTierCase{"States", kOneDevice, "qwen3-next"}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace graft::engine
