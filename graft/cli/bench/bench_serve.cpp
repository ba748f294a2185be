#include "graft/cli/bench/bench_serve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/cli/bench/load_client.h"

namespace graft::cli {
namespace {

struct BenchServeOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
  std::string model;
  std::vector<std::int64_t> clients = {1, 8, 64};
  std::int64_t rounds = 1;
  std::int64_t prompt_words = 80;
  std::int64_t max_tokens = 64;
  bool json = false;
};

constexpr std::array<std::string_view, 16> kPromptWords = {
    "river", "seven", "the",  "garden", "under", "bright", "stone", "walks",
    "and",   "small", "over", "music",  "with",  "old",    "paper", "seldom"};

// Every prompt starts differently, so that the prefix cache has no effect.
std::string prompt_text(std::int64_t number, std::int64_t num_words, std::mt19937_64& random) {
  std::string text = fmt::format("{} {}", number, random() % 1'000'000);
  for (std::int64_t i = 0; i < num_words; ++i)
    text += fmt::format(" {}", kPromptWords[random() % kPromptWords.size()]);
  return text;
}

std::vector<ClientLoad> loads_of(const BenchServeOptions& options, std::int64_t num_clients) {
  std::mt19937_64 random(static_cast<std::uint64_t>(num_clients));
  std::vector<ClientLoad> clients(static_cast<std::size_t>(num_clients));
  std::int64_t number = 0;
  for (ClientLoad& client : clients) {
    for (std::int64_t round = 0; round < options.rounds; ++round) {
      const Json body = {{"model", options.model},
                         {"prompt", prompt_text(number++, options.prompt_words, random)},
                         {"max_tokens", options.max_tokens},
                         {"temperature", 0},
                         {"ignore_eos", true},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}}};
      client.bodies.push_back(body.dump());
    }
  }
  return clients;
}

// One line of the table.
struct LoadSummary {
  std::int64_t clients = 0;
  std::int64_t requests = 0;
  std::int64_t failed = 0;
  std::string failure = {};  // of the first failed request
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  double seconds = 0;
  std::vector<double> ttft = {};  // time to first token, seconds
  std::vector<double> itl = {};   // inter-token latency, seconds
};

LoadSummary summary_of(const LoadResult& load, std::int64_t num_clients) {
  LoadSummary summary = {.clients = num_clients,
                         .requests = static_cast<std::int64_t>(load.streams.size()),
                         .seconds = load.seconds};
  for (const StreamResult& stream : load.streams) {
    if (!stream.failure.empty()) {
      if (summary.failed++ == 0) summary.failure = stream.failure;
      continue;
    }
    summary.prompt_tokens += stream.prompt_tokens;
    summary.output_tokens += stream.output_tokens;
    const std::vector<double>& times = stream.chunk_seconds;
    if (!times.empty()) summary.ttft.push_back(times.front());
    for (std::size_t i = 1; i < times.size(); ++i)
      summary.itl.push_back(times[i] - times[i - 1]);
  }
  std::ranges::sort(summary.ttft);
  std::ranges::sort(summary.itl);
  return summary;
}

// Requires sorted values; 0 for an empty list.
double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(share * last))];
}

Json summary_json(const LoadSummary& summary) {
  const auto quantiles = [](const std::vector<double>& sorted) {
    return Json{{"p50", quantile(sorted, 0.5)},
                {"p99", quantile(sorted, 0.99)},
                {"max", quantile(sorted, 1)}};
  };
  return {{"clients", summary.clients},
          {"requests", summary.requests},
          {"failed", summary.failed},
          {"prompt_tokens", summary.prompt_tokens},
          {"output_tokens", summary.output_tokens},
          {"seconds", summary.seconds},
          {"output_tokens_per_s", static_cast<double>(summary.output_tokens) / summary.seconds},
          {"first_token_seconds", quantiles(summary.ttft)},
          {"between_tokens_seconds", quantiles(summary.itl)}};
}

void print_header(const BenchServeOptions& options) {
  fmt::print(
      "{}: prompts of {} words, {} output tokens, {} requests per client\n"
      "TTFT: time to first token, ITL: inter-token latency, in seconds\n",
      options.url, options.prompt_words, options.max_tokens, options.rounds);
  fmt::print("{:>7} {:>7} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "clients", "failed",
             "output tok/s", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99", "ITL max");
}

void print_line(const LoadSummary& summary) {
  fmt::print("{:>7} {:>7} {:>12.1f} {:>10.3f} {:>10.3f} {:>10.4f} {:>10.4f} {:>10.3f}\n",
             summary.clients, summary.failed,
             static_cast<double>(summary.output_tokens) / summary.seconds,
             quantile(summary.ttft, 0.5), quantile(summary.ttft, 0.99), quantile(summary.itl, 0.5),
             quantile(summary.itl, 0.99), quantile(summary.itl, 1));
  if (summary.failed > 0) fmt::print("        first failure: {}\n", summary.failure);
  std::fflush(stdout);
}

void bench_serve(BenchServeOptions options) {
  ServerAddress address = parse_server_url(options.url);
  address.api_key = options.api_key;
  if (options.model.empty()) options.model = first_model(address);
  Json all = Json::array();
  std::int64_t num_failed = 0;
  if (!options.json) print_header(options);
  for (const std::int64_t num_clients : options.clients) {
    const LoadSummary summary = summary_of(
        run_load(address, "/v1/completions", loads_of(options, num_clients)), num_clients);
    num_failed += summary.failed;
    if (options.json) {
      all.push_back(summary_json(summary));
    } else {
      print_line(summary);
    }
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  if (num_failed > 0) fail(options.url, ": ", num_failed, " requests failed");
}

}  // namespace

void add_serve_bench(Command& bench) {
  auto options = std::make_shared<BenchServeOptions>();
  const auto count = Range(std::int64_t{1}, std::int64_t{1} << 20);
  Command* command = bench.add_subcommand(
      "serve", "Load-test a running OpenAI-compatible server with concurrent clients");
  command->add_option("--url", options->url, "URL of the server (default: http://127.0.0.1:8000)");
  command->add_option("--api-key", options->api_key, "API key of the server")
      ->envname("OPENAI_API_KEY");
  command->add_option("--name", options->model, "Model name (default: the first the server lists)");
  command
      ->add_option("-c,--clients", options->clients,
                   "Numbers of concurrent clients (default: 1,8,64)")
      ->delimiter(',')
      ->check(count);
  command->add_option("-r,--rounds", options->rounds, "Requests per client (default: 1)")
      ->check(count);
  command->add_option("--prompt-words", options->prompt_words, "Words per prompt (default: 80)")
      ->check(count);
  command
      ->add_option("--max-tokens", options->max_tokens, "Output tokens per request (default: 64)")
      ->check(count);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { bench_serve(*options); });
}

}  // namespace graft::cli
