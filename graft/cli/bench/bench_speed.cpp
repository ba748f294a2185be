#include "graft/cli/bench/bench_speed.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <memory>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Prompt length of decode tests; its prefill is not measured.
constexpr std::int64_t kPromptTokens = 1;
// The first step of a batch size runs eagerly, the second captures its graph.
constexpr std::int64_t kWarmUpTokens = 3;

api::LlmConfig config_for(const ModelOptions& model,
                          const std::vector<SpeedTest>& tests,
                          bool profile) {
  api::LlmConfig config = model.config();
  config.profile = profile;
  config.engine.enable_prefix_caching = false;
  config.engine.max_num_seqs = 1;
  config.engine.max_model_len = 0;
  for (const SpeedTest& test : tests) {
    const std::int64_t length =
        test.num_prompt > 0 ? test.num_prompt + 1 : kPromptTokens + 1 + test.num_generated;
    config.engine.max_num_seqs = std::max(config.engine.max_num_seqs, test.num_sequences);
    config.engine.max_model_len = std::max(config.engine.max_model_len, length);
  }
  return config;
}

// Measures decode of a batch: from the first token of the last sequence to start until the last
// sequence finishes. Only the engine's thread accesses it until `done` is set.
struct DecodeTimer {
  std::int64_t num_sequences = 0;
  std::int64_t num_started = 0;
  std::int64_t num_finished = 0;
  std::int64_t num_tokens = 0;
  Clock::time_point start;
  Clock::time_point end;
  std::promise<void> done;

  // `had_token` is the state of the sequence: whether an earlier update had a token.
  void add(const api::Update& update, bool& had_token) {
    num_tokens += static_cast<std::int64_t>(update.tokens.size());
    if (!had_token && !update.tokens.empty()) {
      had_token = true;
      if (++num_started == num_sequences) start = Clock::now();
    }
    if (!update.finish || ++num_finished < num_sequences) return;
    end = Clock::now();
    done.set_value();
  }
};

api::LLM::Callback callback_for(const std::shared_ptr<DecodeTimer>& timer) {
  return [timer, had_token = false](const api::Update& update) mutable {
    timer->add(update, had_token);
  };
}

}  // namespace

std::string SpeedTest::name() const {
  return num_prompt > 0 ? str("pp", num_prompt) : str("tg", num_generated);
}

std::vector<SpeedTest> SpeedTestLists::tests() const {
  std::vector<SpeedTest> tests;
  for (const std::int64_t count : prompts) {
    if (count > 0) tests.push_back({.num_prompt = count});
  }
  for (const std::int64_t count : generated) {
    for (const std::int64_t batch : batch_sizes) {
      if (count > 0 && batch > 0) tests.push_back({.num_generated = count, .num_sequences = batch});
    }
  }
  if (tests.empty()) fail("bench: nothing to measure with these values of -p, -n and -b");
  return tests;
}

SpeedRunner::SpeedRunner(const ModelOptions& model,
                         const std::vector<SpeedTest>& tests,
                         bool profile)
    : llm_(model.open(config_for(model, tests, profile))), workload_(*llm_) {}

void SpeedRunner::warm_up(const SpeedTest& test) {
  if (test.num_prompt > 0) {
    prefill_seconds(test.num_prompt);
  } else {
    decode_seconds(test.num_sequences, std::min(kWarmUpTokens, test.num_generated));
  }
}

double SpeedRunner::run(const SpeedTest& test) {
  const double seconds = test.num_prompt > 0
                             ? prefill_seconds(test.num_prompt)
                             : decode_seconds(test.num_sequences, test.num_generated);
  return static_cast<double>(test.num_tokens()) / std::max(seconds, 1e-9);
}

double SpeedRunner::prefill_seconds(std::int64_t num_tokens) {
  const auto outputs = llm_->generate({workload_.tokens(num_tokens)}, generate_exactly(1));
  return outputs[0].samples[0].timings.first_token_seconds;
}

double SpeedRunner::decode_seconds(std::int64_t num_sequences, std::int64_t num_tokens) {
  const auto timer = std::make_shared<DecodeTimer>();
  timer->num_sequences = num_sequences;
  // Submitted from the last update of a short request, that is between two steps, so that all
  // sequences start in the same step.
  const auto start_all = [this, timer, num_tokens](const api::Update& update) {
    if (!update.finish) return;
    try {
      for (std::int64_t i = 0; i < timer->num_sequences; ++i) {
        llm_->submit(workload_.tokens(kPromptTokens), generate_exactly(1 + num_tokens),
                     callback_for(timer));
      }
    } catch (...) {
      timer->done.set_exception(std::current_exception());
    }
  };
  llm_->submit(workload_.tokens(kPromptTokens), generate_exactly(1), start_all);
  timer->done.get_future().get();
  const std::int64_t expected = num_sequences * (1 + num_tokens);
  if (timer->num_tokens != expected)
    fail("bench: got ", timer->num_tokens, " tokens, expected ", expected);
  return std::chrono::duration<double>(timer->end - timer->start).count();
}

}  // namespace graft::cli
