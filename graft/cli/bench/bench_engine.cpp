#include "graft/cli/bench/bench_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graft/api/llm.h"
#include "graft/cli/bench/bench_workload.h"
#include "graft/cli/options/model_options.h"

namespace graft::cli {
namespace {

struct Options {
  ModelOptions model;
  std::int64_t num_seqs = 256;
  std::int64_t min_len = 100;
  std::int64_t max_len = 1024;
  std::int64_t input_len = 128;
  std::int64_t output_len = 128;
  std::int64_t iterations = 5;
  std::vector<std::int64_t> batch_sizes = {1, 4, 16, 64};
  std::int64_t prefix_len = 2000;
  bool json = false;
};

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Everything at once, lengths drawn at random: nano-vllm's workload.
void bench_throughput(const Options& options) {
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = std::max<std::int64_t>(options.num_seqs, 1);
  config.engine.max_num_batched_tokens = std::max<std::int64_t>(options.num_seqs, 2048);
  config.engine.max_model_len = 2 * options.max_len + 1;
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
  llm.generate({Tokens{1, 2, 3}}, generate_exactly(2));  // brings the weights into memory
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
  fmt::print("{} requests: {} tokens in, {} out, {:.1f} s\n", options.num_seqs, num_input,
             num_output, seconds);
  fmt::print("  {:.1f} output tokens/s, {:.1f} tokens/s in all, {} steps, {} preemptions\n",
             per_second(num_output), per_second(num_input + num_output), stats.num_steps,
             stats.num_preemptions);
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::lround(share * last))];
}

// One request at a time.
void bench_latency(const Options& options) {
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = 1;
  config.engine.max_model_len = options.input_len + options.output_len + 1;
  config.engine.enable_prefix_caching = false;
  const auto loaded = options.model.open(config);
  api::LLM& llm = *loaded;
  Workload workload(llm);
  llm.generate({Tokens{1, 2, 3}}, generate_exactly(2));
  std::vector<double> first;
  std::vector<double> each;
  std::vector<double> whole;
  for (std::int64_t i = 0; i < options.iterations; ++i) {
    const auto outputs =
        llm.generate({workload.tokens(options.input_len)}, generate_exactly(options.output_len));
    const api::Timings& timings = outputs[0].samples[0].timings;
    first.push_back(timings.first_token_seconds);
    whole.push_back(timings.total_seconds);
    each.push_back((timings.total_seconds - timings.first_token_seconds) /
                   static_cast<double>(std::max<std::int64_t>(options.output_len - 1, 1)));
  }
  fmt::print("{} tokens in, {} out, {} times (seconds)\n", options.input_len, options.output_len,
             options.iterations);
  fmt::print("  {:<22} {:>9} {:>9} {:>9}\n", "", "median", "90 %", "99 %");
  for (const auto& [name, values] :
       {std::pair{"first token", &first}, std::pair{"each further token", &each},
        std::pair{"whole request", &whole}}) {
    fmt::print("  {:<22} {:>9.4f} {:>9.4f} {:>9.4f}\n", name, quantile(*values, 0.5),
               quantile(*values, 0.9), quantile(*values, 0.99));
  }
}

// So many sequences that generate side by side; the prompts are not counted.
void bench_batch(const Options& options) {
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = std::ranges::max(options.batch_sizes);
  config.engine.max_num_batched_tokens = std::max<std::int64_t>(2048, config.engine.max_num_seqs);
  config.engine.max_model_len = options.input_len + options.output_len + 1;
  config.engine.enable_prefix_caching = false;
  const auto loaded = options.model.open(config);
  api::LLM& llm = *loaded;
  Workload workload(llm);
  llm.generate({Tokens{1, 2, 3}}, generate_exactly(2));
  fmt::print("{:>9} {:>16} {:>18}\n", "sequences", "prompt tokens/s", "generated tokens/s");
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

// A prompt, and another one that begins with the same tokens.
void bench_prefix(const Options& options) {
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = 1;
  config.engine.max_model_len = options.prefix_len + 66;
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
    fmt::print("request {}: {} of {} prompt tokens cached, first token after {:.3f} s\n", i + 1,
               outputs[0].num_cached, outputs[0].num_prompt, seconds.back());
  }
  fmt::print("the second takes {:.3f} of the first\n", seconds[1] / seconds[0]);
}

CLI::App* add_kind(CLI::App& bench,
                   const std::string& name,
                   const std::string& summary,
                   const std::shared_ptr<Options>& options,
                   void (*run)(const Options&)) {
  CLI::App* command = bench.add_subcommand(name, summary);
  options->model.add_to(*command);
  command->callback([options, run] { run(*options); });
  return command;
}

}  // namespace

void add_engine_benches(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  const auto count = CLI::Range(std::int64_t{1}, std::int64_t{1} << 24);
  CLI::App* throughput = add_kind(bench, "throughput", "Many requests of random lengths at once",
                                  options, bench_throughput);
  throughput->add_option("--num-seqs", options->num_seqs, "Requests (default: 256)")->check(count);
  throughput->add_option("--min-len", options->min_len, "Fewest tokens in and out (default: 100)")
      ->check(count);
  throughput->add_option("--max-len", options->max_len, "Most tokens in and out (default: 1024)")
      ->check(count);
  throughput->add_flag("--json", options->json, "Print the figures as JSON");

  CLI::App* latency = add_kind(bench, "latency", "One request at a time", options, bench_latency);
  latency->add_option("--iterations", options->iterations, "Requests (default: 5)")->check(count);
  CLI::App* batch =
      add_kind(bench, "batch", "Sequences that generate side by side", options, bench_batch);
  batch->add_option("-b,--batch-sizes", options->batch_sizes, "How many (default: 1,4,16,64)")
      ->delimiter(',')
      ->check(count);
  for (CLI::App* command : {latency, batch}) {
    command->add_option("--input-len", options->input_len, "Tokens of a prompt (default: 128)")
        ->check(count);
    command->add_option("--output-len", options->output_len, "Tokens of an answer (default: 128)")
        ->check(count);
  }
  CLI::App* prefix =
      add_kind(bench, "prefix", "Two prompts that begin alike", options, bench_prefix);
  prefix->add_option("--prefix-len", options->prefix_len, "Tokens they share (default: 2000)")
      ->check(count);
}

}  // namespace graft::cli
