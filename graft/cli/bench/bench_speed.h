// The tests of `graft bench`, named as in llama-bench: pp512 prefills a prompt of 512 tokens, tg128
// decodes 128 tokens after a prompt of one token.

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

// Exactly one of num_prompt and num_generated is 0.
struct SpeedTest {
  std::int64_t num_prompt = 0;
  std::int64_t num_generated = 0;
  std::int64_t num_sequences = 1;  // batch size

  auto operator<=>(const SpeedTest&) const = default;
  std::string name() const;  // "pp512", "tg128"
  std::int64_t num_tokens() const { return num_prompt + num_generated * num_sequences; }
};

// The values of -p, -n and -b; 0 skips.
struct SpeedTestLists {
  std::vector<std::int64_t> prompts = {512};
  std::vector<std::int64_t> generated = {128};
  std::vector<std::int64_t> batch_sizes = {1, 8, 32};

  std::vector<SpeedTest> tests() const;  // throws Error when there are none
};

// Loads a model and runs tests on it.
class SpeedRunner {
 public:
  // `profile` measures time per module, which slows GPUs down.
  SpeedRunner(const ModelOptions& model, const std::vector<SpeedTest>& tests, bool profile = false);

  // Unmeasured run before the first round of a test.
  void warm_up(const SpeedTest& test);
  // Tokens per second, summed over the sequences.
  double run(const SpeedTest& test);
  // Totals since the model was loaded.
  ModuleProfile profile() { return llm_->profile(); }
  const plan::Plan& plan() const { return llm_->plan(); }

 private:
  double prefill_seconds(std::int64_t num_tokens);
  double decode_seconds(std::int64_t num_sequences, std::int64_t num_tokens);

  std::unique_ptr<api::LLM> llm_;
  Workload workload_;
};

}  // namespace graft::cli
