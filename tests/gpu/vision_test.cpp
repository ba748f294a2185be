// Vision tower and projector on a GPU: LLaVA and LLaVA-NeXT against Transformers with all
// combinations of devices, the fast arithmetic against the CPU, and answers of an engine.

#include <array>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/engine/engine.h"
#include "graft/models/open_model.h"
#include "graft/ops/cuda/operators.h"
#include "graft/testing/cuda/virtual_gpus.h"
#include "graft/testing/golden.h"
#include "graft/testing/vision/golden_images.h"

namespace graft::models {
namespace {

constexpr const char* kPrecise = ", precision: f32";

OpenOptions options_of(const std::string& rules) {
  OpenOptions options;
  options.rules = rules;
  options.load.repack = false;
  options.machine.num_gpus = 2;
  options.operators = [](int /*num_gpus*/) {
    ops::Registry registry = ops::builtin_operators();
    ops::cuda::register_cuda(registry);
    return registry;
  };
  return options;
}

class GpuVision : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ops::testing::use_virtual_gpus(); }
  void SetUp() override { GRAFT_REQUIRE_GPU(); }
};

TEST_F(GpuVision, MatchesTransformersOnAnyDevices) {
  for (const auto& [tower, projector, text] :
       {std::array{"cuda:0", "cuda:0", "cuda:0"}, std::array{"cuda:0", "cuda:0", "cpu"},
        std::array{"cpu", "cpu", "cuda:0"}, std::array{"cuda:1", "cuda:1", "cuda:0"},
        std::array{"cuda:0", "cpu", "cuda:1"}, std::array{"cpu", "cuda:0", "cpu"}}) {
    const OpenOptions options = options_of(testing::vision_rules(tower, projector, text, kPrecise));
    SCOPED_TRACE(options.rules);
    OpenModel open(golden_checkpoint("llava"), options);
    testing::expect_llava(open, {.features = 1e-3, .logits = 4e-3});
    OpenModel next(golden_checkpoint("llava-next"), options);
    testing::expect_llava_next(next, {.features = 2e-3, .logits = 4e-3});
  }
}

TEST_F(GpuVision, FastArithmeticIsClose) {
  for (const char* checkpoint : {"llava", "llava-next"}) {
    OpenModel exact(golden_checkpoint(checkpoint),
                    options_of(testing::vision_rules("cpu", "cpu", "cpu", {})));
    OpenModel fast(golden_checkpoint(checkpoint),
                   options_of(testing::vision_rules("cuda:0", "cuda:0", "cuda:0", {})));
    const vision::PreparedImage image = testing::picture("photo.webp", exact);
    const double error =
        testing::vision_error(fast.model().encode_image(image), exact.model().encode_image(image));
    std::cout << checkpoint << ": " << error << '\n';
    EXPECT_LE(error, 2e-2);
  }
}

// Two requests with images among others of text, with graphs of decode passes between the images.
TEST_F(GpuVision, AnswersDoNotDependOnGraphsOrTheOrderOfImages) {
  const auto answers = [](bool is_eager, std::int64_t max_num_seqs) {
    OpenModel open(golden_checkpoint("llava"),
                   options_of(testing::vision_rules("cuda:0", "cuda:0", "cuda:0", kPrecise)));
    engine::EngineConfig config;
    config.max_model_len = 256;
    config.num_kvcache_blocks = 64;
    config.max_num_seqs = max_num_seqs;
    config.enforce_eager = is_eager;
    engine::Engine engine(open, nullptr, config);
    std::vector<std::vector<engine::TokenId>> tokens(4);
    for (int i = 0; i < 4; ++i) {
      engine::Request request;
      for (engine::TokenId t = 0; t < 20; ++t)
        request.prompt.push_back(5 + t * 7);
      if (i % 2 == 0) {
        request.images = {{.position = 4 + i,
                           .image = std::make_shared<const vision::PreparedImage>(
                               testing::picture(i == 0 ? "photo.webp" : "landscape.png", open))}};
      }
      request.params = {.temperature = 0, .max_tokens = 24, .ignore_eos = true};
      engine.add(std::move(request));
    }
    while (engine.has_work()) {
      for (const engine::Update& update : engine.step()) {
        auto& all = tokens[static_cast<std::size_t>(update.id.request) % tokens.size()];
        all.insert(all.end(), update.tokens.begin(), update.tokens.end());
      }
    }
    return tokens;
  };
  const auto want = answers(true, 1);
  EXPECT_EQ(answers(false, 1), want);
  EXPECT_EQ(answers(false, 4), want);
}

}  // namespace
}  // namespace graft::models
