#include "graft/cli/bench/bench_lora.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graft/api/llm.h"
#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/str.h"
#include "graft/cli/bench/bench_workload.h"
#include "graft/cli/bench/random_adapter.h"
#include "graft/cli/options/model_options.h"
#include "graft/ops/lora.h"

namespace graft::cli {
namespace {

struct BenchLoraOptions {
  ModelOptions model;
  std::int64_t num_adapters = 8;
  std::int64_t rank = 16;
  std::int64_t batch_size = 8;
  std::int64_t input_len = 128;
  std::int64_t output_len = 128;
  std::int64_t rounds = 5;
  bool json = false;
};

// Of one batch: the tokens and the time after the first token of the last sequence.
class DecodeClock {
 public:
  explicit DecodeClock(std::size_t num_sequences) : has_started_(num_sequences) {}

  void count(std::size_t sequence, const api::Update& update) {
    const std::lock_guard lock(mutex_);
    end_ = std::chrono::steady_clock::now();
    if (num_started_ == has_started_.size()) {
      num_counted_ += std::ssize(update.tokens);
    } else if (!has_started_[sequence] && !update.tokens.empty()) {
      has_started_[sequence] = true;
      ++num_started_;
      begin_ = end_;
    }
    if (!update.finish) return;
    if (update.finish->reason == api::FinishReason::Error) problem_ = update.finish->message;
    ++num_finished_;
    changed_.notify_all();
  }

  // Tokens per second of all sequences together.
  double wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_finished_ == has_started_.size(); });
    if (!problem_.empty()) fail("bench lora: ", problem_);
    return static_cast<double>(num_counted_) / std::chrono::duration<double>(end_ - begin_).count();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> has_started_;  // by sequence
  std::size_t num_started_ = 0;
  std::size_t num_finished_ = 0;
  std::int64_t num_counted_ = 0;
  std::string problem_;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point end_;
};

// `adapters` in turn; empty: none.
double decode_speed(api::LLM& llm,
                    const std::vector<Tokens>& prompts,
                    const api::SamplingParams& params,
                    const std::vector<std::string>& adapters) {
  DecodeClock clock(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    api::SubmitOptions options;
    if (!adapters.empty()) options.adapter = adapters[i % adapters.size()];
    llm.submit(
        prompts[i], params, [&clock, i](const api::Update& update) { clock.count(i, update); },
        options);
  }
  return clock.wait();
}

std::vector<std::string> load_adapters(api::LLM& llm, const BenchLoraOptions& options) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < options.num_adapters; ++i) {
    const TempDir folder;  // removed when the adapter is loaded
    names.push_back(str("random-", i));
    write_random_adapter(*llm.plan().blueprint, options.rank, static_cast<std::uint64_t>(i + 1),
                         folder.path());
    llm.load_adapter({.name = names.back(), .path = folder.path()});
  }
  return names;
}

double middle(std::vector<double> speeds) {
  std::ranges::sort(speeds);
  return speeds[speeds.size() / 2];
}

void bench_lora(const BenchLoraOptions& options) {
  if (!options.model.lora.empty()) fail("bench lora makes its own adapters: leave --lora out");
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = options.batch_size;
  config.engine.max_model_len = options.input_len + options.output_len + 1;
  const auto llm = options.model.open(config);
  const std::vector<std::string> adapters = load_adapters(*llm, options);
  Workload workload(*llm);
  std::vector<Tokens> prompts;
  for (std::int64_t i = 0; i < options.batch_size; ++i)
    prompts.push_back(workload.tokens(options.input_len));
  const api::SamplingParams params = generate_exactly(options.output_len);
  // The prompts are in the prefix cache from here on, and graphs are captured.
  decode_speed(*llm, prompts, params, {});
  decode_speed(*llm, prompts, params, adapters);
  // Alternating, so that other work on the machine slows down both alike.
  std::vector<double> without;
  std::vector<double> with;
  for (std::int64_t i = 0; i < options.rounds; ++i) {
    without.push_back(decode_speed(*llm, prompts, params, {}));
    with.push_back(decode_speed(*llm, prompts, params, adapters));
  }
  const double plain = middle(without);
  const double adapted = middle(with);
  if (options.json) {
    fmt::print(
        "{{\"batch\": {}, \"adapters\": {}, \"rank\": {}, \"decode_tokens_per_s\": {:.2f}, "
        "\"lora_tokens_per_s\": {:.2f}, \"ratio\": {:.4f}, \"added_time\": {:.4f}}}\n",
        options.batch_size, options.num_adapters, options.rank, plain, adapted, adapted / plain,
        plain / adapted - 1);
    return;
  }
  fmt::print("{} sequences, decode tok/s, median of {} rounds\n", options.batch_size,
             options.rounds);
  fmt::print("  {:<32} {:>9.1f}\n", "without adapters", plain);
  fmt::print("  {:<32} {:>9.1f}  ratio {:.3f}, {:+.1f} % time\n",
             fmt::format("{} adapters of rank {}", options.num_adapters, options.rank), adapted,
             adapted / plain, 100 * (plain / adapted - 1));
}

}  // namespace

void add_lora_bench(Command& bench) {
  auto options = std::make_shared<BenchLoraOptions>();
  const auto count = Range(std::int64_t{1}, std::int64_t{1} << 24);
  Command* command = bench.add_subcommand(
      "lora", "Measure what LoRA adapters (of random values, on all linear layers) add to decode");
  options->model.add_to(*command);
  command
      ->add_option("--adapters", options->num_adapters,
                   "Different adapters, in turn over the sequences (default: 8)")
      ->check(Range(1, ops::kMaxAdapters));
  command->add_option("--rank", options->rank, "Rank of the adapters (default: 16)")
      ->check(Range(std::int64_t{1}, ops::kMaxLoraRank));
  command->add_option("-b,--batch-size", options->batch_size, "Sequences (default: 8)")
      ->check(count);
  command->add_option("--input-len", options->input_len, "Prompt tokens (default: 128)")
      ->check(count);
  command->add_option("--output-len", options->output_len, "Output tokens (default: 128)")
      ->check(Range(std::int64_t{3}, std::int64_t{1} << 24));
  command->add_option("-r,--rounds", options->rounds, "Repetitions (default: 5)")
      ->check(Range(1, 1000));
  command->add_flag("--json", options->json, "Print the results as JSON");
  command->callback([options] { bench_lora(*options); });
}

}  // namespace graft::cli
