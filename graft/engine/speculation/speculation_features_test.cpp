// Speculation beside adapters, images, windows, tiers and embeddings: the same bits as without it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/engine/engine.h"
#include "graft/engine/speculation/speculation.h"
#include "graft/models/open_model.h"
#include "graft/testing/checkpoints/windowed_model.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"
#include "graft/vision/image.h"
#include "graft/vision/processor.h"

namespace graft::engine {
namespace {

struct GuessedOutput {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::vector<float> embedding;

  bool operator==(const GuessedOutput&) const = default;
};
using GuessedOutputs = std::vector<GuessedOutput>;

EngineConfig guessing_config() {
  EngineConfig config;
  config.max_num_batched_tokens = 48;
  config.max_num_seqs = 8;
  config.max_model_len = 400;
  config.num_kvcache_blocks = 120;
  config.kvcache_block_size = 4;
  return config;
}

// Few tokens, so that many guesses are right.
Request guessing_request(std::int64_t length, std::uint64_t seed, std::int64_t max_tokens = 40) {
  Request request;
  for (std::int64_t i = 0; i < length; ++i)
    request.prompt.push_back(static_cast<TokenId>(3 + (i * i + i / 3) % 3));
  request.params = {.temperature = 0.8, .seed = seed, .max_tokens = max_tokens, .ignore_eos = true};
  request.params.allowed_token_ids = {3, 4, 5};
  request.params.logprobs = 1;
  return request;
}

GuessedOutputs run_guessing(Engine& engine, const std::vector<Request>& requests) {
  std::map<RequestId, GuessedOutput> outputs;
  for (const Request& request : requests)
    engine.add(request);
  while (engine.has_work()) {
    for (const Update& update : engine.step()) {
      GuessedOutput& output = outputs[update.id.request];
      output.tokens.insert(output.tokens.end(), update.tokens.begin(), update.tokens.end());
      for (const TokenLogprobs& logprobs : update.logprobs)
        output.logprobs.push_back(logprobs.logprob);
      if (update.finish) output.embedding = update.embedding;
    }
  }
  GuessedOutputs in_order;
  for (auto& [id, output] : outputs)
    in_order.push_back(std::move(output));
  return in_order;
}

// Without and with speculation; `config` may be small.
void expect_equal_outputs(models::OpenModel& open,
                          const std::vector<Request>& requests,
                          EngineConfig config = guessing_config()) {
  GuessedOutputs want;
  {
    Engine engine(open, nullptr, guessing_config());
    want = run_guessing(engine, requests);
  }
  config.speculate = parse_speculation("ngram:1,5");
  Engine engine(open, nullptr, config);
  EXPECT_EQ(run_guessing(engine, requests), want);
  EXPECT_GT(engine.stats().speculation.num_accepted_tokens, 10);
  EXPECT_LT(engine.stats().speculation.num_accepted_tokens,
            engine.stats().speculation.num_draft_tokens);
  EXPECT_EQ(engine.stats().blocks.num_used, 0);
}

TEST(SpeculationFeatures, AdaptersOfABatch) {
  models::OpenOptions options;
  options.adapters = {{.name = "a", .path = golden_adapter("llama-lora-a")},
                      {.name = "b", .path = golden_adapter("llama-lora-b")}};
  models::OpenModel open(golden_checkpoint("llama"), options);
  GuessedOutputs outputs[2];
  for (const bool speculates : {false, true}) {
    EngineConfig config = guessing_config();
    if (speculates) config.speculate = parse_speculation("ngram:1,5");
    Engine engine(open, nullptr, config);
    std::vector<Request> requests;
    for (const char* name : {"a", "", "b", "a"}) {
      requests.push_back(guessing_request(20, requests.size()));
      if (*name != '\0') requests.back().adapter = engine.adapters().find(name);
    }
    outputs[speculates ? 1 : 0] = run_guessing(engine, requests);
    EXPECT_EQ(engine.stats().speculation.num_accepted_tokens > 10, speculates);
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

// The tokens of images have ids above the vocabulary, which no guess may have.
TEST(SpeculationFeatures, Images) {
  models::OpenModel open(golden_checkpoint("llava"));
  vision::Image image(80, 60);
  for (std::size_t i = 0; i < image.rgb.size(); ++i)
    image.rgb[i] = static_cast<std::uint8_t>(i / 7);
  const auto prepared = std::make_shared<const vision::PreparedImage>(
      vision::prepare(image, open.source().config().vision->processor));
  std::vector<Request> requests;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    // Before the second image are the tokens that precede the first one.
    requests.push_back(guessing_request(30, seed));
    std::vector<TokenId>& prompt = requests.back().prompt;
    for (const std::size_t at : {9U, 19U})
      std::fill_n(prompt.begin() + static_cast<std::ptrdiff_t>(at) - 3, 3, 4);
    requests.back().images = {{.position = 9, .image = prepared},
                              {.position = 19, .image = prepared}};
  }
  expect_equal_outputs(open, requests);
}

TEST(SpeculationFeatures, BlocksOutOfTheWindow) {
  constexpr std::int64_t kGuessedWindow = 24;
  const WindowedModel model(kGuessedWindow);
  models::OpenModel open(model.path());
  EngineConfig small = guessing_config();
  small.num_kvcache_blocks = 22;  // the window of two sequences
  expect_equal_outputs(open, {guessing_request(60, 1, 120), guessing_request(70, 2, 90)}, small);
}

TEST(SpeculationFeatures, TiersAndPreemption) {
  models::OpenModel open(golden_checkpoint("deepseek-v3"));
  const TempDir folder;
  EngineConfig small = guessing_config();
  small.num_kvcache_blocks = 40;
  small.kv_host_bytes = 8U << 20U;
  small.kv_disk_bytes = 8U << 20U;
  small.kv_dir = folder.path();
  std::vector<Request> requests;
  for (std::uint64_t seed = 0; seed < 6; ++seed)
    requests.push_back(guessing_request(30, seed));
  expect_equal_outputs(open, requests, small);
}

TEST(SpeculationFeatures, EmbeddingsOfTheSameStep) {
  models::OpenModel open(golden_checkpoint("llama"));
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 6; ++i) {
    if (i % 2 == 0) {
      requests.push_back(guessing_request(10, i));
      continue;
    }
    Request text;
    for (TokenId token = 0; token < 90; ++token)
      text.prompt.push_back((token * 7 + static_cast<TokenId>(i)) % 200);
    text.pooling = i % 4 == 1 ? Pooling::Mean : Pooling::Last;
    requests.push_back(std::move(text));
  }
  expect_equal_outputs(open, requests);
}

TEST(SpeculationFeatures, EmbeddingsOfTheSameStepOnADevice) {
  models::OpenOptions options;
  options.rules =
      "- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: \"cuda:0\"}}}\n";
  options.machine.num_gpus = 1;
  options.operators = ops::testing::with_test_devices;
  options.num_threads = 1;
  models::OpenModel open(golden_checkpoint("llama"), options);
  std::vector<Request> requests = {guessing_request(10, 1), guessing_request(12, 2)};
  Request text;
  for (TokenId token = 0; token < 150; ++token)
    text.prompt.push_back(token * 7 % 200);
  text.pooling = Pooling::Mean;
  requests.push_back(text);
  expect_equal_outputs(open, requests);
}

// Wrong guesses take no block that another sequence needs.
TEST(SpeculationFeatures, GuessesPreemptNothing) {
  models::OpenModel open(golden_checkpoint("llama"));
  EngineConfig config = guessing_config();
  config.num_kvcache_blocks = 26;  // two sequences of 50 tokens
  config.enable_prefix_caching = false;
  const std::vector<Request> requests = {guessing_request(10, 1), guessing_request(10, 2)};
  Engine plain(open, nullptr, config);
  const GuessedOutputs want = run_guessing(plain, requests);
  EXPECT_EQ(plain.stats().num_preemptions, 0);
  config.speculate = parse_speculation("ngram:1,60");
  Engine engine(open, nullptr, config);
  EXPECT_EQ(run_guessing(engine, requests), want);
  EXPECT_EQ(engine.stats().num_preemptions, 0);
}

}  // namespace
}  // namespace graft::engine
