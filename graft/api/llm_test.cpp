// LLM end to end: text in, text out, also from many threads. The model is Sprout; the expected
// output is in tests/sprout/reference.json.

#include "graft/api/llm.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/testing/bf16_rounding.h"
#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"

namespace graft::api {
namespace {

std::filesystem::path sprout() {
  return bundled_sprout();
}

LlmConfig small_config() {
  LlmConfig config;
  config.engine.max_model_len = 512;
  config.engine.max_num_seqs = 32;
  return config;
}

SamplingParams greedy(std::int64_t max_tokens) {
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = max_tokens;
  return params;
}

constexpr const char* kQuestion =
    "<|im_start|>user\nFind the sum of 62 and 1.<|im_end|>\n<|im_start|>assistant\n";

TEST(Llm, GeneratesTextUntilEos) {
  LLM llm(sprout(), small_config());
  const std::vector<Output> outputs = llm.generate({kQuestion, kQuestion}, greedy(40));
  ASSERT_EQ(outputs.size(), 2U);
  for (const Output& output : outputs) {
    ASSERT_EQ(output.samples.size(), 1U);
    EXPECT_EQ(output.samples[0].text, "62 + 1 = 63");
    EXPECT_EQ(output.samples[0].finish.reason, FinishReason::Stop);
    EXPECT_EQ(output.num_prompt, 22);
    EXPECT_GT(output.samples[0].timings.total_seconds, 0);
  }
  EXPECT_EQ(llm.stats().num_running, 0);
}

TEST(Llm, WarnsWhereExpertsAreNotCounted) {
  TempDir dir;
  LlmConfig config = small_config();
  std::vector<std::string> warnings;
  config.on_warning = [&](const std::string& line) { warnings.push_back(line); };
  config.expert_stats = dir / "stats.json";
  { const LLM llm(sprout(), config); }
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with(config.expert_stats.string() +
                                      ": no statistics of experts are read or written"))
      << warnings[0];
  EXPECT_FALSE(std::filesystem::exists(config.expert_stats));
  config.expert_stats = dir / "missing" / "stats.json";
  EXPECT_THROW(LLM(sprout(), config), Error);
}

struct ReferenceModel {
  const char* name;
  std::filesystem::path path;
  double max_gap;  // of the two largest logits, up to which another token may win; measured: 0.11
};

std::ostream& operator<<(std::ostream& out, const ReferenceModel& model) {
  return out << model.name;
}

// The weights of the reference are BF16: on a machine without them only Q6_K is compared.
std::vector<ReferenceModel> reference_models() {
  std::vector<ReferenceModel> models = {{"Q6_K", sprout(), 0.2}};
  const auto bf16 = shared_data("models/sprout");
  if (std::filesystem::exists(bf16) || shared_data_is_required())
    models.push_back({"BF16", bf16, 0});
  return models;
}

class SproutReference : public testing::TestWithParam<ReferenceModel> {};

// DeepSeek-V3's shape, tied, with a next-n layer that is not run; against Transformers.
TEST_P(SproutReference, ContinuationMatchesTheReference) {
  GRAFT_SKIP_UNDER_SANITIZERS();
  GRAFT_REQUIRE_SHARED(GetParam().path);
  LLM llm(GetParam().path);
  const Json reference = read_json_file(test_data("sprout/reference.json"));
  SamplingParams params = greedy(48);
  params.ignore_eos = true;
  params.skip_special_tokens = false;
  std::vector<Prompt> prompts;
  for (const Json& prompt : reference.at("prompts"))
    prompts.emplace_back(prompt.at("prompt").get<std::string>());
  ASSERT_EQ(prompts.size(), 24U);
  const std::vector<Output> outputs = llm.generate(prompts, params);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Json& want = reference.at("prompts").at(i);
    EXPECT_EQ(outputs[i].num_prompt, static_cast<std::int64_t>(want.at("prompt_ids").size()));
    const auto& tokens = outputs[i].samples[0].tokens;
    const auto want_tokens = want.at("greedy_ids").get<std::vector<TokenId>>();
    ASSERT_EQ(tokens.size(), want_tokens.size());
    const auto [differs, _] = std::ranges::mismatch(tokens, want_tokens);
    if (differs == tokens.end()) {
      EXPECT_EQ(outputs[i].samples[0].text, want.at("greedy_text").get<std::string>());
      continue;
    }
    const auto step = static_cast<std::size_t>(differs - tokens.begin());
    const double max_gap = std::max(GetParam().max_gap, rounds_to_bf16() ? 0.1 : 0.0);
    EXPECT_LE(want.at("top2_gaps").at(step).get<double>(), max_gap)
        << "prompt " << i << ", step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Llm,
                         SproutReference,
                         testing::ValuesIn(reference_models()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Llm, OpensHuggingFaceFoldersInShards) {
  LLM llm(sprout_checkpoint(), small_config());
  const std::vector<Output> outputs = llm.generate({kQuestion}, greedy(3));
  EXPECT_EQ(outputs[0].num_prompt, 22);
  EXPECT_FALSE(outputs[0].samples[0].tokens.empty());
}

TEST(Llm, StopStringsMatchAcrossTokensAndAreRemoved) {
  LLM llm(sprout(), small_config());
  SamplingParams params = greedy(40);
  params.stop = {"nothing", " 1 = 6"};
  const auto stopped = llm.generate({kQuestion}, params);
  EXPECT_EQ(stopped[0].samples[0].text, "62 +");
  EXPECT_EQ(stopped[0].samples[0].finish.stop_text, " 1 = 6");
  params.include_stop_str_in_output = true;
  EXPECT_EQ(llm.generate({kQuestion}, params)[0].samples[0].text, "62 + 1 = 6");
  params.min_tokens = 9;
  params.stop = {"62"};
  EXPECT_EQ(llm.generate({kQuestion}, params)[0].samples[0].text, "62 + 1 = 63");
}

TEST(Llm, StreamsTheSameText) {
  LLM llm(sprout(), small_config());
  std::mutex mutex;
  std::condition_variable done;
  std::vector<std::string> deltas;
  bool has_ended = false;
  llm.submit(kQuestion, greedy(40), [&](const Update& update) {
    const std::lock_guard lock(mutex);
    if (!update.text.empty()) deltas.push_back(update.text);
    has_ended = update.finish.has_value();
    done.notify_all();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return has_ended; });
  EXPECT_GT(deltas.size(), 3U);
  std::string text;
  for (const std::string& delta : deltas)
    text += delta;
  EXPECT_EQ(text, "62 + 1 = 63");
}

TEST(Llm, SamplesDifferAndAreReproducibleWithASeed) {
  LLM llm(sprout(), small_config());
  SamplingParams params;
  params.n = 4;
  params.seed = 11;
  params.temperature = 1.2;
  params.max_tokens = 12;
  const auto first = llm.generate({"Once upon a time"}, params);
  const auto second = llm.generate({"Once upon a time"}, params);
  ASSERT_EQ(first[0].samples.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(first[0].samples[i].text, second[0].samples[i].text);
  EXPECT_NE(first[0].samples[0].text, first[0].samples[1].text);
}

TEST(Llm, InvalidRequestsDoNotAffectOthers) {
  LLM llm(sprout(), small_config());
  SamplingParams bad = greedy(5);
  bad.top_p = 7;
  EXPECT_THROW(llm.submit("Hello", bad, {}), Error);
  EXPECT_THROW(llm.generate({std::vector<TokenId>(600, 5)}, greedy(5)), Error);
  EXPECT_THROW(llm.generate({"a", "b"}, std::vector<SamplingParams>{greedy(5)}), Error);
  // A callback that throws aborts only its own request.
  llm.submit(kQuestion, greedy(40), [](const Update&) { throw 1; });
  EXPECT_EQ(llm.generate({kQuestion}, greedy(40))[0].samples[0].text, "62 + 1 = 63");
}

TEST(Llm, DestructorAbortsRunningRequests) {
  std::atomic<int> num_aborted = 0;
  {
    LLM llm(sprout(), small_config());
    SamplingParams params = greedy(400);
    params.ignore_eos = true;
    for (int i = 0; i < 5; ++i) {
      llm.submit(kQuestion, params, [&](const Update& update) {
        if (update.finish && update.finish->reason == FinishReason::Abort) ++num_aborted;
      });
    }
  }
  EXPECT_EQ(num_aborted, 5);
}

TEST(Llm, SavesAndRestoresARunningSequence) {
  const TempDir folder;
  const auto path = folder / "running.seq";
  SamplingParams params = greedy(60);
  params.ignore_eos = true;
  std::mutex mutex;
  std::condition_variable changed;
  std::string before;
  std::string after;
  bool is_saved = false;
  bool has_ended = false;
  {
    LLM llm(sprout(), small_config());
    const RequestId id = llm.submit(kQuestion, params, [&](const Update& update) {
      std::unique_lock lock(mutex);
      if (!is_saved) before += update.text;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return before.size() > 8; });
    is_saved = true;  // later text may or may not be in the file; the checks below allow both
    lock.unlock();
    llm.save({.request = id, .sample = 0}, path);
  }
  LLM other(sprout(), small_config());
  other.restore(path, [&](const Update& update) {
    const std::lock_guard lock(mutex);
    after += update.text;
    has_ended = update.finish.has_value();
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return has_ended; });
  lock.unlock();
  const std::string whole = other.generate({kQuestion}, params)[0].samples[0].text;
  EXPECT_TRUE(whole.starts_with(before));
  EXPECT_TRUE(whole.ends_with(after));
  EXPECT_FALSE(after.empty());
}

// Also run under the thread sanitizer, so the model is tiny.
TEST(Llm, ManyThreadsSubmitStreamAndAbort) {
  const auto folder = golden_checkpoint("qwen3-moe");
  LlmConfig config;
  config.engine.max_model_len = 128;
  config.engine.max_num_seqs = 8;
  config.engine.num_kvcache_blocks = 40;
  config.engine.idle_release_seconds = 0;  // release memory whenever idle
  LLM llm(folder, config);
  std::atomic<int> num_ended = 0;
  std::atomic<int> num_submitted = 0;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 20; ++i) {
      SamplingParams params;
      params.n = 1 + random() % 2;
      params.max_tokens = 1 + random() % 20;
      num_submitted += static_cast<int>(params.n);
      std::vector<TokenId> prompt(1 + random() % 40, static_cast<TokenId>(random() % 100));
      const RequestId id = llm.submit(prompt, params, [&](const Update& update) {
        if (update.finish) ++num_ended;
      });
      if (random() % 4 == 0) llm.abort(id);
      if (random() % 8 == 0) llm.stats();
    }
    SamplingParams params = greedy(4);
    EXPECT_EQ(llm.generate({std::vector<TokenId>{1, 2, 3}}, params).size(), 1U);
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 0; seed < 4; ++seed)
      threads.emplace_back(work, seed);
  }
  while (num_ended < num_submitted)
    std::this_thread::yield();
  EXPECT_EQ(num_ended, num_submitted);
}

TEST(Llm, PrefixCacheIsSharedWithinASalt) {
  LLM llm(sprout(), small_config());
  const auto num_cached = [&](std::uint64_t salt) {
    std::promise<std::int64_t> result;
    llm.submit(kQuestion, greedy(1),
               [&](const Update& update) {
                 if (update.finish) result.set_value(update.num_cached);
               },
               {.cache_salt = salt});
    return result.get_future().get();
  };
  EXPECT_EQ(num_cached(7), 0);
  EXPECT_EQ(num_cached(8), 0);
  EXPECT_EQ(num_cached(0), 0);
  EXPECT_GT(num_cached(7), 0);
  EXPECT_GT(num_cached(0), 0);
}

TEST(Llm, SimilarTextsHaveSimilarEmbeddings) {
  LLM llm(sprout(), small_config());
  const auto dot = [](const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  };
  for (const Pooling pooling : {Pooling::Mean, Pooling::Last}) {
    const auto cat = llm.embed("The cat sat on the mat.", pooling);
    const auto kitten = llm.embed("The cat sat on the rug.", pooling);
    const auto sum = llm.embed("Find the sum of 62 and 1.", pooling);
    EXPECT_NEAR(dot(cat, cat), 1, 1e-5);
    EXPECT_EQ(cat, llm.embed("The cat sat on the mat.", pooling));
    EXPECT_GT(dot(cat, kitten), dot(cat, sum));
  }
  EXPECT_THROW(llm.embed(std::vector<TokenId>{}), Error);
  EXPECT_THROW(llm.embed(std::vector<TokenId>(600, 5)), Error);
  EXPECT_EQ(llm.stats().blocks.num_used, 0);
}

}  // namespace
}  // namespace graft::api
