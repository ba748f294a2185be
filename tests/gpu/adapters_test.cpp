// LoRA adapters on a GPU: the references of PEFT, and CUDA graphs of decode passes that mix them.

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/engine/engine.h"
#include "graft/models/weights/verify.h"
#include "graft/ops/cuda/operators.h"
#include "graft/testing/cuda/virtual_gpus.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

constexpr const char* kExact = R"yaml(
- match: {role: kv_cache}
  replace: {class: default, kwargs: {device: "cuda:0", dtype: f32}}
- match: {role: linear}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {role: attention}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {role: experts}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

// Layers with adapters on both devices, and a linear layer on another device than its caller.
constexpr const char* kMixed = R"yaml(
- match: {role: kv_cache}
  replace: {class: default, kwargs: {device: "cuda:0", dtype: f32}}
- match: {name: "layers[.]1[.].*down_proj"}
  replace: {class: default, kwargs: {device: cpu}}
- match: {role: linear}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {role: attention}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

constexpr const char* kFast = R"yaml(
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

OpenOptions on_gpu(const char* rules) {
  OpenOptions options;
  options.rules = rules;
  options.machine.num_gpus = 1;
  options.operators = [](int /*num_gpus*/) {
    ops::Registry registry = ops::builtin_operators();
    ops::cuda::register_cuda(registry);
    return registry;
  };
  return options;
}

class GpuAdapters : public ::testing::Test {
 protected:
  void SetUp() override { GRAFT_REQUIRE_GPU(); }
};

TEST_F(GpuAdapters, MatchTheReferences) {
  struct Case {
    const char* base;
    const char* adapter;
    const char* rules;
  };
  for (const Case& c : {Case{"llama", "llama-lora-a", kExact},
                        {"llama", "llama-lora-b", kExact},
                        {"llama", "llama-lora-b", kMixed},
                        {"deepseek-v2-lite", "deepseek-v2-lite-lora", kExact}}) {
    const std::filesystem::path folder = golden_adapter(c.adapter);
    for (const std::int64_t chunk : {0, 7}) {
      VerifyOptions options;
      options.chunk = chunk;
      options.adapter = 0;
      options.open = on_gpu(c.rules);
      options.open.adapters = {{.name = "a", .path = folder}};
      const VerifyReport report =
          verify(golden_checkpoint(c.base), folder / "reference.safetensors", options);
      EXPECT_TRUE(report.ok()) << c.adapter << ", chunks of " << chunk << ": "
                               << report.largest_error();
      std::cout << c.adapter << ", chunks of " << chunk << ": " << report.largest_error() << '\n';
    }
  }
}

std::map<engine::SequenceId, std::vector<engine::TokenId>> run(OpenModel& open, bool is_eager) {
  engine::EngineConfig config;
  config.max_num_batched_tokens = 64;
  config.max_num_seqs = 12;
  config.max_model_len = 100;
  config.num_kvcache_blocks = 200;
  config.enforce_eager = is_eager;
  engine::Engine engine(open, nullptr, config);
  const std::vector<std::string> names = {"a", "", "b", "", "a", "b", "", "a", "", ""};
  for (std::size_t i = 0; i < names.size(); ++i) {
    engine::Request request;
    for (engine::TokenId t = 0; t < 6; ++t)
      request.prompt.push_back((static_cast<engine::TokenId>(i) * 31 + t * 7) % 250);
    request.params.temperature = 0;
    request.params.ignore_eos = true;
    request.params.max_tokens = 8 + static_cast<std::int64_t>(i) * 3;
    if (!names[i].empty()) request.adapter = engine.adapters().find(names[i]);
    engine.add(request);
  }
  std::map<engine::SequenceId, std::vector<engine::TokenId>> tokens;
  while (engine.has_work()) {
    for (const engine::Update& update : engine.step()) {
      auto& all = tokens[update.id];
      all.insert(all.end(), update.tokens.begin(), update.tokens.end());
    }
  }
  if (!is_eager) {
    EXPECT_GT(open.model().num_graph_replays(), 0);
  }
  return tokens;
}

TEST_F(GpuAdapters, GraphsGiveTheTokensOfEagerPasses) {
  for (const char* rules : {kExact, kFast}) {
    OpenOptions options = on_gpu(rules);
    options.adapters = {{.name = "a", .path = golden_adapter("llama-lora-a")},
                        {.name = "b", .path = golden_adapter("llama-lora-b")}};
    OpenModel open(golden_checkpoint("llama"), options);
    EXPECT_EQ(run(open, false), run(open, true));
  }
}

TEST_F(GpuAdapters, ABaseRequestIsTheSameBesideNone) {
  const TokenIds prompt = {1, 5, 9, 2, 40, 41, 42};
  OpenOptions options = on_gpu(kFast);
  OpenModel plain(golden_checkpoint("llama"), options);
  options.adapters = {{.name = "a", .path = golden_adapter("llama-lora-b")}};
  OpenModel open(golden_checkpoint("llama"), options);
  EXPECT_EQ(run_prompts(open.model(), {&prompt, 1}).front().logits,
            run_prompts(plain.model(), {&prompt, 1}).front().logits);
}

}  // namespace
}  // namespace graft::models
