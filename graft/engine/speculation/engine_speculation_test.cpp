// Speculation through the engine changes no bit of the output, whatever else requests ask for.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/str.h"
#include "graft/engine/engine.h"
#include "graft/engine/speculation/speculation.h"
#include "graft/models/families/family.h"
#include "graft/models/open_model.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::engine {
namespace {

using models::OpenModel;

struct SpokenOutput {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;
  std::string text;
  std::optional<Finish> finish;
  std::int64_t num_updates = 0;
  std::int64_t num_output = 0;
  std::int64_t num_draft_tokens = 0;
  std::int64_t num_accepted_tokens = 0;
};
using SpokenOutputs = std::map<SequenceId, SpokenOutput>;

void step_once(Engine& engine, SpokenOutputs& outputs) {
  for (const Update& update : engine.step()) {
    SpokenOutput& output = outputs[update.id];
    EXPECT_FALSE(output.finish) << "an update after the last one";
    ++output.num_updates;
    output.tokens.insert(output.tokens.end(), update.tokens.begin(), update.tokens.end());
    output.logprobs.insert(output.logprobs.end(), update.logprobs.begin(), update.logprobs.end());
    output.text += update.text;
    output.finish = update.finish;
    output.num_draft_tokens = update.num_draft_tokens;
    output.num_accepted_tokens = update.num_accepted_tokens;
    output.num_output = update.num_output;
  }
}

SpokenOutputs run_requests(Engine& engine, const std::vector<Request>& requests) {
  SpokenOutputs outputs;
  for (const Request& request : requests)
    engine.add(request);
  while (engine.has_work())
    step_once(engine, outputs);
  EXPECT_EQ(engine.stats().blocks.num_used, 0);
  for (const auto& [id, output] : outputs)
    EXPECT_EQ(output.num_output, static_cast<std::int64_t>(output.tokens.size()));
  return outputs;
}

void expect_same(const SpokenOutputs& got, const SpokenOutputs& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [id, output] : want) {
    const SpokenOutput& other = got.at(id);
    SCOPED_TRACE(str("request ", id.request, ", sample ", id.sample));
    EXPECT_EQ(other.tokens, output.tokens);
    EXPECT_EQ(other.text, output.text);
    ASSERT_TRUE(other.finish && output.finish);
    EXPECT_EQ(other.finish->reason, output.finish->reason);
    EXPECT_EQ(other.finish->stop_token, output.finish->stop_token);
    EXPECT_EQ(other.finish->stop_text, output.finish->stop_text);
    ASSERT_EQ(other.logprobs.size(), output.logprobs.size());
    for (std::size_t i = 0; i < output.logprobs.size(); ++i) {
      EXPECT_EQ(other.logprobs[i].token, output.logprobs[i].token);
      EXPECT_EQ(other.logprobs[i].logprob, output.logprobs[i].logprob);
      EXPECT_EQ(other.logprobs[i].top, output.logprobs[i].top);
    }
  }
}

EngineConfig speculating(EngineConfig config, const char* text) {
  config.speculate = parse_speculation(text);
  return config;
}

// Of few tokens, so that many guesses are right and many are wrong.
SamplingParams random_params(const std::function<int(int, int)>& pick) {
  const auto one_of = [&](int count) { return pick(1, count) == 1; };
  SamplingParams params;
  params.max_tokens = pick(1, 40);
  params.ignore_eos = true;
  params.seed = static_cast<std::uint64_t>(pick(0, 1000));
  params.temperature = one_of(3) ? 0.0 : 0.7;
  if (params.temperature > 0 && one_of(5)) params.n = pick(2, 3);
  const int num_allowed = one_of(10) ? 0 : pick(3, 6);
  for (int i = 0; i < num_allowed; ++i)
    params.allowed_token_ids.push_back(3 + i);
  if (one_of(3)) params.logprobs = pick(0, 3);
  if (one_of(10)) params.prompt_logprobs = 2;
  if (one_of(4)) params.top_p = 0.7;
  if (one_of(4)) params.repetition_penalty = 1.1;
  if (one_of(6)) params.frequency_penalty = 0.3;
  if (one_of(6)) params.bad_words = {{4, 5}};
  if (one_of(6)) params.logit_bias = {{5, 2.0F}};
  if (one_of(6)) params.stop_token_ids = {3};
  if (one_of(6)) params.min_tokens = std::min<std::int64_t>(4, *params.max_tokens);
  return params;
}

std::vector<Request> random_requests(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < count; ++i) {
    Request request;
    for (int k = pick(1, 40); k > 0; --k)
      request.prompt.push_back(pick(3, 9));
    request.params = random_params(pick);
    request.priority = pick(0, 4) == 0 ? -1 : 0;
    requests.push_back(request);
  }
  return requests;
}

struct SpeculationCase {
  const char* name;
  std::vector<const char*> models;
  std::int64_t budget, slots, blocks, block_tokens;
  bool caching;
  const char* speculate;
};

EngineConfig config_of(const SpeculationCase& limits) {
  EngineConfig config;
  config.max_num_batched_tokens = limits.budget;
  config.max_num_seqs = limits.slots;
  config.num_kvcache_blocks = limits.blocks;
  config.kvcache_block_size = limits.block_tokens;
  config.enable_prefix_caching = limits.caching;
  config.max_model_len = 100;
  return config;
}

// Latent attention, sparse attention, compressed blocks, windows, experts.
const std::vector<const char*> kKinds = {"deepseek-v3", "deepseek-v3.2", "deepseek-v4",
                                         "llama4",      "gpt-oss",       "gemma3"};
const std::vector<const char*> kPlain = {"deepseek-v3", "llama"};

class EngineSpeculation : public testing::TestWithParam<SpeculationCase> {};

TEST_P(EngineSpeculation, OutputIsThatWithoutSpeculation) {
  const std::vector<Request> requests = random_requests(kUnderSanitizers ? 8 : 20, 5);
  for (const char* name : GetParam().models) {
    SCOPED_TRACE(name);
    models::OpenOptions options;
    options.num_threads = 1;  // small steps: synchronizing threads would dominate
    OpenModel open(golden_checkpoint(name), options);
    SpokenOutputs want;
    {
      Engine engine(open, nullptr, config_of({"", {}, 512, 64, 400, 16, false, ""}));
      want = run_requests(engine, requests);
    }
    Engine engine(open, nullptr, speculating(config_of(GetParam()), GetParam().speculate));
    expect_same(run_requests(engine, requests), want);
    const SpeculationStats stats = engine.stats().speculation;
    if (std::string(GetParam().speculate) == "auto") continue;
    EXPECT_GT(stats.num_accepted_tokens, 0);
    EXPECT_LT(stats.num_accepted_tokens, stats.num_draft_tokens);
    EXPECT_GE(stats.num_draft_tokens, stats.num_drafts);
    std::int64_t sum = 0;
    for (const std::int64_t count : stats.accepted_by_position)
      sum += count;
    EXPECT_EQ(sum, stats.num_accepted_tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Configurations,
    EngineSpeculation,
    testing::Values(SpeculationCase{"Roomy", kKinds, 512, 64, 400, 16, true, "ngram:1,4"},
                    SpeculationCase{"SmallBlocks", kPlain, 512, 16, 600, 1, true, "ngram:2,7"},
                    SpeculationCase{"SmallBudget", kPlain, 20, 16, 200, 4, true, "ngram:1,8"},
                    SpeculationCase{"Preempting", kPlain, 64, 16, 14, 8, true, "ngram:1,4"},
                    SpeculationCase{"Uncached", kPlain, 100, 20, 30, 8, false, "ngram:1,1"},
                    SpeculationCase{"Automatic", kPlain, 512, 8, 400, 16, true, "auto"}),
    [](const auto& one) { return std::string(one.param.name); });

class SpeculationTest : public testing::Test {
 protected:
  static EngineConfig roomy() { return config_of({"", {}, 512, 16, 200, 4, true, ""}); }
  // Its answer is the prompt again and again.
  static Request repeating(std::int64_t max_tokens) {
    Request request;
    request.prompt = {5, 5, 5, 5, 5, 5};
    request.params.temperature = 0;
    request.params.max_tokens = max_tokens;
    request.params.ignore_eos = true;
    request.params.allowed_token_ids = {5};
    return request;
  }
};

TEST_F(SpeculationTest, StepsAppendSeveralTokensAndStayWithinMaxTokens) {
  OpenModel open(golden_checkpoint("llama"));
  Engine engine(open, nullptr, speculating(roomy(), "ngram:2,4"));
  for (const std::int64_t max_tokens : {1, 2, 5, 6, 7, 20}) {
    const std::int64_t before = engine.stats().num_steps;
    const SpokenOutputs outputs = run_requests(engine, {repeating(max_tokens)});
    EXPECT_EQ(outputs.begin()->second.tokens.size(), static_cast<std::size_t>(max_tokens));
    // The first token, then five per step, in one update.
    EXPECT_EQ(engine.stats().num_steps - before, 1 + (max_tokens - 1 + 4) / 5) << max_tokens;
    EXPECT_EQ(outputs.begin()->second.num_updates, engine.stats().num_steps - before);
    EXPECT_EQ(outputs.begin()->second.num_accepted_tokens,
              outputs.begin()->second.num_draft_tokens);
  }
}

TEST_F(SpeculationTest, RequestsChooseForThemselves) {
  OpenModel open(golden_checkpoint("llama"));
  Request on = repeating(20);
  on.params.speculate = parse_speculation("ngram");
  Request off = repeating(20);
  off.params.speculate = parse_speculation("off");
  {
    Engine engine(open, nullptr, roomy());
    const SpokenOutputs outputs = run_requests(engine, {on, off, repeating(20)});
    EXPECT_GT(outputs.at({.request = 1}).num_draft_tokens, 0);
    EXPECT_EQ(outputs.at({.request = 2}).num_draft_tokens, 0);
    EXPECT_EQ(outputs.at({.request = 3}).num_draft_tokens, 0);
  }
  Engine engine(open, nullptr, speculating(roomy(), "ngram"));
  const SpokenOutputs outputs = run_requests(engine, {on, off, repeating(20)});
  EXPECT_EQ(outputs.at({.request = 2}).num_draft_tokens, 0);
  EXPECT_GT(outputs.at({.request = 3}).num_draft_tokens, 0);
}

// The tokens of registered blocks were right: a second prompt that continues with them, right up to
// where guesses were wrong, gives what it gives without a cache.
TEST_F(SpeculationTest, RejectedTokensAreNotInThePrefixCache) {
  OpenModel open(golden_checkpoint("deepseek-v3"));
  std::vector<Request> requests = random_requests(12, 3);
  for (Request& request : requests)
    request.params.n = 1;
  Engine engine(open, nullptr,
                speculating(config_of({"", {}, 512, 16, 600, 2, true, ""}), "ngram:1,6"));
  const SpokenOutputs first = run_requests(engine, requests);
  EXPECT_LT(engine.stats().speculation.num_accepted_tokens,
            engine.stats().speculation.num_draft_tokens);
  std::vector<Request> turns;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request turn = requests[i];
    const auto& tokens = first.at({.request = i + 1}).tokens;
    turn.prompt.insert(turn.prompt.end(), tokens.begin(), tokens.end());
    turn.params.max_tokens = 9;
    turn.params.min_tokens = 0;
    turn.params.prompt_logprobs.reset();
    turn.params.logprobs = 2;
    turns.push_back(turn);
  }
  const std::int64_t num_hits = engine.stats().num_hit_tokens;
  SpokenOutputs got = run_requests(engine, turns);
  EXPECT_GT(engine.stats().num_hit_tokens, num_hits);
  SpokenOutputs by_order;
  for (auto& [id, output] : got)
    by_order[{.request = id.request - requests.size()}] = std::move(output);
  Engine fresh(open, nullptr, config_of({"", {}, 512, 16, 600, 2, false, ""}));
  expect_same(by_order, run_requests(fresh, turns));
}

TEST_F(SpeculationTest, SavedPausedAndAbortedSequences) {
  OpenModel open(golden_checkpoint("llama"));
  const TempDir folder;
  std::vector<Request> requests = random_requests(2, 17);
  for (Request& request : requests) {
    request.params = {.temperature = 0.7, .seed = 3, .max_tokens = 40, .ignore_eos = true};
    request.params.allowed_token_ids = {3, 4, 5};
    request.params.speculate = parse_speculation("ngram:1,4");
  }
  SpokenOutputs want;
  {
    Engine engine(open, nullptr, roomy());
    want = run_requests(engine, requests);
  }
  for (int num_steps = 1; num_steps < 9; ++num_steps) {
    SCOPED_TRACE(num_steps);
    Engine engine(open, nullptr, roomy());
    SpokenOutputs outputs;
    for (const Request& request : requests)
      engine.add(request);
    for (int i = 0; i < num_steps; ++i)
      step_once(engine, outputs);
    engine.save({.request = 1}, folder / "saved.seq");
    engine.abort(1);
    engine.pause(2);
    step_once(engine, outputs);
    engine.resume(2);
    const std::vector<TokenId> head = outputs[{.request = 1}].tokens;
    const RequestId restored = engine.restore(folder / "saved.seq");
    while (engine.has_work())
      step_once(engine, outputs);
    std::vector<TokenId> tokens = head;
    const std::vector<TokenId>& rest = outputs.at({.request = restored}).tokens;
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    EXPECT_EQ(tokens, want.at({.request = 1}).tokens);
    EXPECT_EQ(outputs.at({.request = 2}).tokens, want.at({.request = 2}).tokens);
    EXPECT_GT(outputs.at({.request = restored}).num_draft_tokens, 0);
    EXPECT_EQ(engine.stats().blocks.num_used, 0);
  }
}

TEST_F(SpeculationTest, RecurrentStatesAreRefusedUnlessAutomatic) {
  OpenModel open(golden_checkpoint("qwen3-next"));
  EXPECT_THROW(Engine(open, nullptr, speculating(roomy(), "ngram")), Error);
  Engine engine(open, nullptr, speculating(roomy(), "auto"));
  Request request = repeating(12);
  EXPECT_EQ(run_requests(engine, {request}).begin()->second.num_draft_tokens, 0);
  request.params.speculate = parse_speculation("ngram");
  try {
    engine.add(request);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "speculate is ngram:3,5: the model has recurrent states, which cannot return to the "
              "last right token; use off or auto");
  }
}

// Sprout: text, stop strings and grammars.
TEST_F(SpeculationTest, StopStringsAndGrammars) {
  OpenModel open(bundled_sprout());
  const tokenizer::Tokenizer tokenizer(open.source().tokenizer(), models::pre_tokenizer_names());
  std::vector<Request> requests;
  for (const double temperature : {0.0, 0.8}) {
    Request story;
    story.prompt = tokenizer.encode(
        "The cat sat on the mat. The dog sat on the mat. The cat sat on the mat. The dog sat on");
    story.params = {.temperature = temperature, .seed = 1, .max_tokens = 40};
    requests.push_back(story);
    story.params.stop = {"mat", "cat"};
    requests.push_back(story);
    story.params.min_tokens = 9;
    requests.push_back(story);
    story.params.stop = {};
    story.params.structured_output =
        StructuredOutput{.kind = StructuredOutput::Kind::Regex,
                         .text = "( the (mat|dog|cat)\\.( The (dog|cat) sat on){1,2}){3}"};
    requests.push_back(story);
    story.params.structured_output = StructuredOutput{
        .kind = StructuredOutput::Kind::JsonSchema,
        .text = R"({"type":"array","items":{"enum":["The cat sat","The dog sat"]},"maxItems":5})"};
    requests.push_back(story);
  }
  SpokenOutputs want;
  {
    Engine engine(open, &tokenizer, roomy());
    want = run_requests(engine, requests);
  }
  Engine engine(open, &tokenizer, speculating(roomy(), "ngram:1,6"));
  expect_same(run_requests(engine, requests), want);
  EXPECT_GT(engine.stats().speculation.num_accepted_tokens, 50);
}

struct SpeculationPlacement {
  const char* name;
  const char* rules;
};

class SpeculationOnDevices : public testing::TestWithParam<SpeculationPlacement> {};

// The device samples guessed rows, or the host does where the distribution depends on the output.
TEST_P(SpeculationOnDevices, GiveTheTokensOfTheHost) {
  const auto folder = golden_checkpoint("deepseek-v3");
  const std::vector<Request> requests = random_requests(kUnderSanitizers ? 8 : 16, 9);
  EngineConfig config = config_of({"", {}, 64, 12, 60, 8, true, ""});
  SpokenOutputs want;
  {
    OpenModel cpu(folder);
    Engine engine(cpu, nullptr, config);
    want = run_requests(engine, requests);
  }
  models::OpenOptions options;
  options.rules = GetParam().rules;
  options.machine.num_gpus = 1;
  options.operators = ops::testing::with_test_devices;
  options.num_threads = 1;
  OpenModel device(folder, options);
  for (auto& [id, output] : want)
    output.logprobs.clear();  // some are of a device's arithmetic
  for (const char* speculate : {"ngram:1,4", "auto"}) {
    Engine engine(device, nullptr, speculating(config, speculate));
    SpokenOutputs got = run_requests(engine, requests);
    for (auto& [id, output] : got)
      output.logprobs.clear();
    expect_same(got, want);
    if (std::string(speculate) == "auto") continue;
    EXPECT_GT(engine.stats().speculation.num_accepted_tokens, 0);
    EXPECT_LT(engine.stats().speculation.num_accepted_tokens,
              engine.stats().speculation.num_draft_tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    SpeculationOnDevices,
    testing::Values(
        SpeculationPlacement{
            "DeviceOnly",
            "- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: \"cuda:0\"}}}\n"},
        SpeculationPlacement{"HybridExperts", R"yaml(
- match: {role: experts}
  replace:
    class: experts
    kwargs: {generate_device: cpu, prefill_device: "cuda:0", gpu_experts: 1, stream_from: 4}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml"},
        SpeculationPlacement{"HeadOnCpu", R"yaml(
- match: {name: "^lm_head$"}
  replace: {class: default, kwargs: {device: cpu}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml"}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace graft::engine
