// The tests of `graft bench`, in llama-bench's words: pp512 computes a prompt of 512 tokens, tg128
// generates 128 tokens after a prompt of one.

#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/cli/bench/bench_profile.h"
#include "graft/cli/bench/bench_workload.h"
#include "graft/cli/options/model_options.h"

namespace graft::cli {

// One of the two counts is 0.
struct SpeedTest {
  std::int64_t num_prompt = 0;
  std::int64_t num_generated = 0;
  std::int64_t num_sequences = 1;  // side by side

  auto operator<=>(const SpeedTest&) const = default;
  std::string name() const;  // "pp512", "tg128"
  std::int64_t num_tokens() const { return num_prompt + num_generated * num_sequences; }
};

// What the user lists; 0 skips. Throws Error when nothing is left.
struct SpeedTestLists {
  std::vector<std::int64_t> prompts = {512};
  std::vector<std::int64_t> generated = {128};
  std::vector<std::int64_t> batch_sizes = {1, 8, 32};

  std::vector<SpeedTest> tests() const;
};

// A loaded model that runs tests.
class SpeedRunner {
 public:
  // `profile`: time every module too, which slows GPUs down.
  SpeedRunner(const ModelOptions& model, const std::vector<SpeedTest>& tests, bool profile = false);

  // Once before what counts: memory and caches are as they are in the middle of work.
  void warm_up(const SpeedTest& test);
  // Tokens per second, of all sequences together.
  double run(const SpeedTest& test);
  // Of all modules since the start.
  ModuleProfile profile() { return llm_->profile(); }

 private:
  double prompt_seconds(std::int64_t num_tokens);
  double generate_seconds(std::int64_t num_sequences, std::int64_t num_tokens);

  std::unique_ptr<api::LLM> llm_;
  Workload workload_;
};

}  // namespace graft::cli
