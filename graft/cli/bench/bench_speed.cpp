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

// The first token comes from the prompt's pass, which is not counted.
constexpr std::int64_t kStartTokens = 1;

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
        test.num_prompt > 0 ? test.num_prompt + 1 : kStartTokens + 1 + test.num_generated;
    config.engine.max_num_seqs = std::max(config.engine.max_num_seqs, test.num_sequences);
    config.engine.max_model_len = std::max(config.engine.max_model_len, length);
  }
  config.engine.max_num_batched_tokens =
      std::max(config.engine.max_num_batched_tokens, config.engine.max_num_seqs);
  return config;
}

// Sequences side by side: from when the last of them has its first token until the last one ends.
// The model's thread alone touches it, until `done`.
struct Race {
  std::int64_t num_sequences = 0;
  std::int64_t num_started = 0;
  std::int64_t num_ended = 0;
  std::int64_t num_tokens = 0;
  Clock::time_point start;
  Clock::time_point end;
  std::promise<void> done;

  // One token an update: `had_token` is what the sequence remembers of the one before.
  void take(const api::Update& update, bool& had_token) {
    num_tokens += static_cast<std::int64_t>(update.tokens.size());
    if (!had_token && !update.tokens.empty()) {
      had_token = true;
      if (++num_started == num_sequences) start = Clock::now();
    }
    if (!update.finish || ++num_ended < num_sequences) return;
    end = Clock::now();
    done.set_value();
  }
};

api::LLM::Callback racer(const std::shared_ptr<Race>& race) {
  return [race, had_token = false](const api::Update& update) mutable {
    race->take(update, had_token);
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
  if (tests.empty()) fail("bench: -p, -n and -b leave nothing to measure");
  return tests;
}

SpeedRunner::SpeedRunner(const ModelOptions& model,
                         const std::vector<SpeedTest>& tests,
                         bool profile)
    : llm_(model.open(config_for(model, tests, profile))), workload_(*llm_) {}

void SpeedRunner::warm_up(const SpeedTest& test) {
  if (test.num_prompt > 0) {
    prompt_seconds(test.num_prompt);
  } else {
    generate_seconds(test.num_sequences, 1);
  }
}

double SpeedRunner::run(const SpeedTest& test) {
  const double seconds = test.num_prompt > 0
                             ? prompt_seconds(test.num_prompt)
                             : generate_seconds(test.num_sequences, test.num_generated);
  return static_cast<double>(test.num_tokens()) / std::max(seconds, 1e-9);
}

double SpeedRunner::prompt_seconds(std::int64_t num_tokens) {
  const auto outputs = llm_->generate({workload_.tokens(num_tokens)}, generate_exactly(1));
  return outputs[0].samples[0].timings.first_token_seconds;
}

double SpeedRunner::generate_seconds(std::int64_t num_sequences, std::int64_t num_tokens) {
  const auto race = std::make_shared<Race>();
  race->num_sequences = num_sequences;
  // Submitted between two steps, by the end of a short request, all begin in the same step.
  const auto start_all = [this, race, num_tokens](const api::Update& update) {
    if (!update.finish) return;
    try {
      for (std::int64_t i = 0; i < race->num_sequences; ++i)
        llm_->submit(workload_.tokens(kStartTokens), generate_exactly(1 + num_tokens), racer(race));
    } catch (...) {
      race->done.set_exception(std::current_exception());
    }
  };
  llm_->submit(workload_.tokens(kStartTokens), generate_exactly(1), start_all);
  race->done.get_future().get();
  const std::int64_t expected = num_sequences * (1 + num_tokens);
  if (race->num_tokens != expected)
    fail("bench: ", race->num_tokens, " tokens came instead of ", expected);
  return std::chrono::duration<double>(race->end - race->start).count();
}

}  // namespace graft::cli
