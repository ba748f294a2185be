#include "graft/cli/bench/bench_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "graft/api/llm.h"
#include "graft/cli/bench/bench_workload.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/options/tier_options.h"

namespace graft::cli {
namespace {

struct BenchEngineOptions {
  ModelOptions model;
  std::int64_t num_seqs = 256;
  std::int64_t min_len = 100;
  std::int64_t max_len = 1024;
  std::int64_t input_len = 128;
  std::int64_t output_len = 128;
  std::int64_t iterations = 5;
  std::vector<std::int64_t> batch_sizes = {1, 4, 16, 64};
  std::int64_t prefix_len = 2000;
  TierOptions tiers;
  bool json = false;
};

// For the copies to the tiers and the release of the KV cache after a request.
constexpr std::chrono::seconds kReleaseTime{2};

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// All requests at once with random prompt and output lengths, as nano-vllm's benchmark.
void bench_throughput(const BenchEngineOptions& options) {
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = std::max<std::int64_t>(options.num_seqs, 1);
  config.engine.max_model_len = 2 * options.max_len + 1;
  options.tiers.apply_to(config.engine);
  const auto loaded = options.model.open(config);
  api::LLM& llm = *loaded;
  Workload workload(llm);
  std::vector<api::Prompt> prompts;
  std::vector<api::SamplingParams> params;
  std::int64_t num_input = 0;
  std::int64_t num_output = 0;
  for (std::int64_t i = 0; i < options.num_seqs; ++i) {
    prompts.emplace_back(workload.tokens(workload.length(options.min_len, options.max_len)));
    params.push_back(generate_exactly(workload.length(options.min_len, options.max_len), 0.6));
    num_input += static_cast<std::int64_t>(std::get<Tokens>(prompts.back()).size());
    num_output += *params.back().max_tokens;
  }
  llm.generate({Tokens{1, 2, 3}}, generate_exactly(2));  // warm-up
  const double seconds = seconds_of([&] { llm.generate(prompts, params); });
  const api::EngineStats stats = llm.stats();
  const auto per_second = [&](std::int64_t count) { return static_cast<double>(count) / seconds; };
  if (options.json) {
    fmt::print(
        "{{\"requests\": {}, \"input_tokens\": {}, \"output_tokens\": {}, \"seconds\": {:.3f}, "
        "\"output_tokens_per_s\": {:.2f}, \"tokens_per_s\": {:.2f}, \"steps\": {}, "
        "\"preemptions\": {}}}\n",
        options.num_seqs, num_input, num_output, seconds, per_second(num_output),
        per_second(num_input + num_output), stats.num_steps, stats.num_preemptions);
    return;
  }
  fmt::print("{} requests: {} prompt tokens, {} output tokens, {:.1f} s\n", options.num_seqs,
             num_input, num_output, seconds);
  fmt::print("  {:.1f} output tok/s, {:.1f} total tok/s, {} steps, {} preemptions\n",
             per_second(num_output), per_second(num_input + num_output), stats.num_steps,
             stats.num_preemptions);
}

double quantile_of_unsorted(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::lround(share * last))];
}

// Runs one request at a time.
void bench_latency(const BenchEngineOptions& options) {
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = 1;
  config.engine.max_model_len = options.input_len + options.output_len + 1;
  config.engine.enable_prefix_caching = false;
  const auto loaded = options.model.open(config);
  api::LLM& llm = *loaded;
  Workload workload(llm);
  llm.generate({Tokens{1, 2, 3}}, generate_exactly(2));
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> total;
  for (std::int64_t i = 0; i < options.iterations; ++i) {
    const auto outputs =
        llm.generate({workload.tokens(options.input_len)}, generate_exactly(options.output_len));
    const api::Timings& timings = outputs[0].samples[0].timings;
    ttft.push_back(timings.first_token_seconds);
    total.push_back(timings.total_seconds);
    tpot.push_back((timings.total_seconds - timings.first_token_seconds) /
                   static_cast<double>(std::max<std::int64_t>(options.output_len - 1, 1)));
  }
  fmt::print("{} prompt tokens, {} output tokens, {} requests\n", options.input_len,
             options.output_len, options.iterations);
  fmt::print("  {:<22} {:>9} {:>9} {:>9}\n", "seconds", "p50", "p90", "p99");
  for (const auto& [name, values] :
       {std::pair{"time to first token", &ttft}, std::pair{"time per output token", &tpot},
        std::pair{"total", &total}}) {
    fmt::print("  {:<22} {:>9.4f} {:>9.4f} {:>9.4f}\n", name, quantile_of_unsorted(*values, 0.5),
               quantile_of_unsorted(*values, 0.9), quantile_of_unsorted(*values, 0.99));
  }
}

// Prefill and decode speed by batch size; decode time excludes prefill.
void bench_batch(const BenchEngineOptions& options) {
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = std::ranges::max(options.batch_sizes);
  config.engine.max_model_len = options.input_len + options.output_len + 1;
  config.engine.enable_prefix_caching = false;
  const auto loaded = options.model.open(config);
  api::LLM& llm = *loaded;
  Workload workload(llm);
  llm.generate({Tokens{1, 2, 3}}, generate_exactly(2));
  fmt::print("{:>9} {:>16} {:>18}\n", "batch", "prefill tok/s", "decode tok/s");
  for (const std::int64_t batch : options.batch_sizes) {
    std::vector<api::Prompt> prompts;
    for (std::int64_t i = 0; i < batch; ++i)
      prompts.emplace_back(workload.tokens(options.input_len));
    const double prefill = seconds_of([&] { llm.generate(prompts, generate_exactly(1)); });
    const double all =
        seconds_of([&] { llm.generate(prompts, generate_exactly(1 + options.output_len)); });
    fmt::print("{:>9} {:>16.1f} {:>18.1f}\n", batch,
               static_cast<double>(batch * options.input_len) / prefill,
               static_cast<double>(batch * options.output_len) / std::max(all - prefill, 1e-9));
  }
}

// Time to first token of two prompts with the same prefix: a prefix cache miss, then a hit. With
// tiers the memory of the KV cache is released in between, so the hit is one of a tier.
void bench_prefix(const BenchEngineOptions& options) {
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = 1;
  config.engine.max_model_len = options.prefix_len + 66;
  options.tiers.apply_to(config.engine);
  const bool has_tiers = config.engine.kv_host_bytes > 0 || config.engine.kv_disk_bytes > 0;
  if (has_tiers) config.engine.idle_release_seconds = 0;
  const auto loaded = options.model.open(config);
  api::LLM& llm = *loaded;
  Workload workload(llm);
  llm.generate({Tokens{1, 2, 3}}, generate_exactly(2));
  const Tokens prefix = workload.tokens(options.prefix_len);
  std::vector<double> seconds;
  for (int i = 0; i < 2; ++i) {
    Tokens prompt = prefix;
    const Tokens rest = workload.tokens(32);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    const auto outputs = llm.generate({prompt}, generate_exactly(1));
    seconds.push_back(outputs[0].samples[0].timings.first_token_seconds);
    if (has_tiers) std::this_thread::sleep_for(kReleaseTime);
    fmt::print("request {}: {} of {} prompt tokens cached, time to first token {:.3f} s\n", i + 1,
               outputs[0].num_cached, outputs[0].num_prompt, seconds.back());
  }
  fmt::print("time to first token with a prefix cache hit: {:.3f} of that without\n",
             seconds[1] / seconds[0]);
}

Command* add_kind(Command& bench,
                  const std::string& name,
                  const std::string& summary,
                  const std::shared_ptr<BenchEngineOptions>& options,
                  void (*run)(const BenchEngineOptions&)) {
  Command* command = bench.add_subcommand(name, summary);
  options->model.add_to(*command);
  command->callback([options, run] { run(*options); });
  return command;
}

}  // namespace

void add_engine_benches(Command& bench) {
  auto options = std::make_shared<BenchEngineOptions>();
  const auto count = Range(std::int64_t{1}, std::int64_t{1} << 24);
  Command* throughput =
      add_kind(bench, "throughput", "Measure throughput of many requests with random lengths",
               options, bench_throughput);
  throughput->add_option("--num-seqs", options->num_seqs, "Number of requests (default: 256)")
      ->check(count);
  throughput
      ->add_option("--min-len", options->min_len, "Min prompt and output tokens (default: 100)")
      ->check(count);
  throughput
      ->add_option("--max-len", options->max_len, "Max prompt and output tokens (default: 1024)")
      ->check(count);
  options->tiers.add_to(*throughput);
  throughput->add_flag("--json", options->json, "Print the results as JSON");

  Command* latency =
      add_kind(bench, "latency", "Measure latency of single requests", options, bench_latency);
  latency->add_option("--iterations", options->iterations, "Number of requests (default: 5)")
      ->check(count);
  Command* batch = add_kind(bench, "batch", "Measure prefill and decode speed by batch size",
                            options, bench_batch);
  batch->add_option("-b,--batch-sizes", options->batch_sizes, "Batch sizes (default: 1,4,16,64)")
      ->delimiter(',')
      ->check(count);
  for (Command* command : {latency, batch}) {
    command->add_option("--input-len", options->input_len, "Prompt tokens (default: 128)")
        ->check(count);
    command->add_option("--output-len", options->output_len, "Output tokens (default: 128)")
        ->check(count);
  }
  Command* prefix =
      add_kind(bench, "prefix", "Measure the effect of a prefix cache hit", options, bench_prefix);
  prefix->add_option("--prefix-len", options->prefix_len, "Shared prefix tokens (default: 2000)")
      ->check(count);
  options->tiers.add_to(*prefix);
}

}  // namespace graft::cli
