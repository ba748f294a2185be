// Requests with images: the output is the same, bit for bit, under chunked prefill, prefix caching,
// preemption, forks and after a restore; blocks are shared between equal images only.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/engine/engine.h"
#include "graft/engine/images/image_tokens.h"
#include "graft/models/open_model.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"
#include "graft/vision/image.h"
#include "graft/vision/processor.h"

namespace graft::engine {
namespace {

using models::OpenModel;

using ImagePtr = std::shared_ptr<const vision::PreparedImage>;

// A picture of one color ramp per seed.
ImagePtr picture(const OpenModel& open, int seed, std::int64_t width = 80) {
  vision::Image image(width, 60);
  for (std::size_t i = 0; i < image.rgb.size(); ++i)
    image.rgb[i] = static_cast<std::uint8_t>(i * static_cast<std::size_t>(seed + 3) / 7);
  return std::make_shared<const vision::PreparedImage>(
      vision::prepare(image, open.source().config().vision->processor));
}

// 20 tokens, an image, 9 tokens, an image, 3 tokens.
Request request_of(const ImagePtr& first, const ImagePtr& second) {
  Request request;
  for (TokenId i = 0; i < 34; ++i)
    request.prompt.push_back(5 + i * 7);
  request.images = {{.position = 20, .image = first}, {.position = 30, .image = second}};
  request.params = {.temperature = 0.8, .seed = 7, .max_tokens = 12, .ignore_eos = true};
  return request;
}

struct ImageOutput {
  std::vector<TokenId> tokens;
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;
  std::optional<Finish> finish;
};
using ImageOutputs = std::map<SequenceId, ImageOutput>;

void run_all(Engine& engine, ImageOutputs& outputs) {
  while (engine.has_work()) {
    for (const Update& update : engine.step()) {
      ImageOutput& output = outputs[update.id];
      output.tokens.insert(output.tokens.end(), update.tokens.begin(), update.tokens.end());
      output.num_prompt = update.num_prompt;
      output.num_cached = update.num_cached;
      if (update.finish) output.finish = update.finish;
    }
  }
}

ImageOutput run_one(Engine& engine, const Request& request) {
  const RequestId id = engine.add(request);
  ImageOutputs outputs;
  run_all(engine, outputs);
  return outputs[{.request = id, .sample = 0}];
}

EngineConfig image_config() {
  EngineConfig config;
  config.max_model_len = 256;
  config.num_kvcache_blocks = 64;
  return config;
}

class EngineImages : public ::testing::TestWithParam<const char*> {
 protected:
  OpenModel open{golden_checkpoint(GetParam())};
  ImagePtr a = picture(open, 1);
  ImagePtr b = picture(open, 2, 40);

  ImageOutput alone(const Request& request) {
    EngineConfig config = image_config();
    config.enable_prefix_caching = false;
    Engine engine(open, nullptr, config);
    return run_one(engine, request);
  }
};

TEST_P(EngineImages, ExpandsPlaceholders) {
  const ImageOutput output = alone(request_of(a, b));
  const ops::VisionTowerParams& tower = *open.model().vision_tower();
  EXPECT_EQ(output.num_prompt,
            32 + models::num_image_tokens(tower, *a) + models::num_image_tokens(tower, *b));
  EXPECT_EQ(output.tokens.size(), 12U);
  EXPECT_NE(alone(request_of(b, a)).tokens, output.tokens);
}

TEST_P(EngineImages, ChunksGiveTheSameOutput) {
  const Request request = request_of(a, b);
  const ImageOutput want = alone(request);
  for (const std::int64_t chunk : {1, 5, 17}) {
    EngineConfig config = image_config();
    config.enable_prefix_caching = false;
    config.chunk_prefill_size = chunk;
    Engine engine(open, nullptr, config);
    EXPECT_EQ(run_one(engine, request).tokens, want.tokens) << chunk;
  }
}

TEST_P(EngineImages, SharesBlocksOfEqualImagesOnly) {
  Engine engine(open, nullptr, image_config());
  const Request request = request_of(a, b);
  const ImageOutput first = run_one(engine, request);
  EXPECT_EQ(first.num_cached, 0);
  const ImageOutput again = run_one(engine, request_of(picture(open, 1), picture(open, 2, 40)));
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.num_cached, (first.num_prompt - 1) / 16 * 16);
  const ImageOutput other = run_one(engine, request_of(b, b));
  EXPECT_EQ(other.num_cached, 16);
  EXPECT_EQ(other.tokens, alone(request_of(b, b)).tokens);
}

TEST_P(EngineImages, HostTierKeepsImagesApart) {
  EngineConfig config = image_config();
  config.kv_host_bytes = 64U << 20U;
  Engine engine(open, nullptr, config);
  const ImageOutput first = run_one(engine, request_of(a, b));
  engine.release_idle_memory();
  const ImageOutput again = run_one(engine, request_of(a, b));
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_GT(again.num_cached, 32);
  engine.release_idle_memory();
  const ImageOutput other = run_one(engine, request_of(b, a));
  EXPECT_EQ(other.num_cached, 16);
  EXPECT_EQ(other.tokens, alone(request_of(b, a)).tokens);
}

TEST_P(EngineImages, PreemptionAndForksKeepTheOutput) {
  Request request = request_of(a, b);
  request.params.n = 3;
  request.params.max_tokens = 40;
  const Request text = {.prompt = std::vector<TokenId>(30, 9),
                        .params = {.temperature = 0, .max_tokens = 60, .ignore_eos = true}};
  const auto run = [&](const EngineConfig& config) {
    Engine engine(open, nullptr, config);
    ImageOutputs outputs;
    engine.add(text);
    engine.add(request);
    engine.add(text);
    run_all(engine, outputs);
    return std::pair(outputs, engine.stats().num_preemptions);
  };
  const auto [want, none] = run(image_config());
  EngineConfig tight = image_config();
  const ImageOutput one = alone(request_of(a, b));
  tight.num_kvcache_blocks = (one.num_prompt + 40) / 16 + 4;
  const auto [got, num_preemptions] = run(tight);
  EXPECT_EQ(none, 0);
  EXPECT_GT(num_preemptions, 0);
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [id, output] : want)
    EXPECT_EQ(got.at(id).tokens, output.tokens) << id.request << "." << id.sample;
}

TEST_P(EngineImages, RestoresFromASnapshot) {
  const TempDir folder;
  const Request request = request_of(a, b);
  const ImageOutput want = alone(request);
  for (const int num_steps : {1, 2, 6}) {
    EngineConfig config = image_config();
    config.chunk_prefill_size = 24;
    Engine engine(open, nullptr, config);
    const RequestId id = engine.add(request);
    ImageOutputs before;
    for (int i = 0; i < num_steps; ++i) {
      for (const Update& update : engine.step())
        before[update.id].tokens.insert(before[update.id].tokens.end(), update.tokens.begin(),
                                        update.tokens.end());
    }
    engine.save({.request = id, .sample = 0}, folder / "saved");
    std::vector<TokenId> tokens = before[{.request = id, .sample = 0}].tokens;
    config.kvcache_block_size = num_steps == 2 ? 32 : 0;  // recomputes all tokens
    Engine other(open, nullptr, config);
    const RequestId restored = other.restore(folder / "saved");
    ImageOutputs after;
    run_all(other, after);
    const std::vector<TokenId>& rest = after[{.request = restored, .sample = 0}].tokens;
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    EXPECT_EQ(tokens, want.tokens) << num_steps;
  }
}

TEST_P(EngineImages, PenaltiesSeeTheTextOfThePrompt) {
  Request request = request_of(a, b);
  request.params.repetition_penalty = 1.3;
  request.params.temperature = 0;
  const ImageOutput output = alone(request);
  ASSERT_TRUE(output.finish);
  EXPECT_EQ(output.finish->reason, FinishReason::Length);
}

TEST_P(EngineImages, RefusesWhatCannotRun) {
  Engine engine(open, nullptr, image_config());
  Request request = request_of(a, b);
  request.params.prompt_logprobs = 1;
  EXPECT_THROW(engine.check(request), Error);
  request = request_of(a, b);
  request.images[1].position = 34;
  EXPECT_THROW(engine.check(request), Error);
  request = request_of(a, b);
  std::swap(request.images[0], request.images[1]);
  EXPECT_THROW(engine.check(request), Error);
  request = request_of(a, b);
  for (int i = 0; i < 7; ++i)
    request.prompt.insert(request.prompt.end(), 32, 9);
  EXPECT_THROW(engine.check(request), Error);  // longer than max_model_len with its images
}

// The text model on a device, alone and with its head on the CPU, beside sequences without images.
TEST_P(EngineImages, DevicesGiveTheSameTokens) {
  const auto run = [&](const std::string& rules) {
    models::OpenOptions options;
    options.rules = rules;
    options.machine.num_gpus = 1;
    options.operators = ops::testing::with_test_devices;
    options.load.repack = false;
    OpenModel placed(golden_checkpoint(GetParam()), options);
    EngineConfig config = image_config();
    config.chunk_prefill_size = 24;
    Engine engine(placed, nullptr, config);
    ImageOutputs outputs;
    Request request = request_of(a, b);
    request.params.temperature = 0;
    engine.add({.prompt = std::vector<TokenId>(12, 9),
                .params = {.temperature = 0, .max_tokens = 30, .ignore_eos = true}});
    engine.add(request);
    run_all(engine, outputs);
    std::vector<std::vector<TokenId>> tokens;
    for (const auto& [id, output] : outputs)
      tokens.push_back(output.tokens);
    return tokens;
  };
  const std::string all = R"(- {match: {name: ""}, replace: {class: default, kwargs: {device: )";
  const auto want = run(all + "cpu}}}\n");
  EXPECT_EQ(run(all + "\"cuda:0\"}}}\n"), want);
  const std::string head =
      R"(- {match: {name: "^lm_head$"}, replace: {class: default, kwargs: {device: cpu}}})";
  EXPECT_EQ(run(head + "\n" + all + "\"cuda:0\"}}}\n"), want);
  const std::string tower =
      R"(- {match: {role: vision_tower}, replace: {class: default, kwargs: {device: cpu}}})";
  EXPECT_EQ(run(tower + "\n" + all + "\"cuda:0\"}}}\n"), want);
}

INSTANTIATE_TEST_SUITE_P(Models, EngineImages, ::testing::Values("llava", "llava-next"));

TEST(EngineImagesOfText, ModelRefusesThem) {
  OpenModel llava(golden_checkpoint("llava"));
  OpenModel text(golden_checkpoint("llama"));
  Engine engine(text, nullptr, image_config());
  try {
    engine.check(request_of(picture(llava, 1), picture(llava, 2)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the model has no vision tower: it does not take images");
  }
}

TEST(EngineImagesIds, DependOnEveryBitOfTheHash) {
  const auto ids = image_token_ids({.high = 1, .low = 2}, 5, 320);
  EXPECT_EQ(ids, image_token_ids({.high = 1, .low = 2}, 5, 320));
  EXPECT_TRUE(std::ranges::all_of(ids, [](TokenId id) { return id >= 320; }));
  const auto other = image_token_ids({.high = 1, .low = 3}, 5, 320);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_NE(ids[i], other[i]);
}

}  // namespace
}  // namespace graft::engine
