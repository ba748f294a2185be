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

struct Options {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
  std::string model;
  std::vector<std::int64_t> clients = {1, 8, 64};
  std::int64_t rounds = 1;
  std::int64_t prompt_words = 80;
  std::int64_t max_tokens = 64;
  bool json = false;
};

constexpr std::array<std::string_view, 16> kWords = {
    "river", "seven", "the",  "garden", "under", "bright", "stone", "walks",
    "and",   "small", "over", "music",  "with",  "old",    "paper", "seldom"};

// No two begin alike: what is measured is the work, not the prefix cache.
std::string prompt_text(std::int64_t number, std::int64_t num_words, std::mt19937_64& random) {
  std::string text = fmt::format("{} {}", number, random() % 1'000'000);
  for (std::int64_t i = 0; i < num_words; ++i)
    text += fmt::format(" {}", kWords[random() % kWords.size()]);
  return text;
}

std::vector<ClientBodies> bodies_of(const Options& options, std::int64_t num_clients) {
  std::mt19937_64 random(static_cast<std::uint64_t>(num_clients));
  std::vector<ClientBodies> clients(static_cast<std::size_t>(num_clients));
  std::int64_t number = 0;
  for (ClientBodies& bodies : clients) {
    for (std::int64_t round = 0; round < options.rounds; ++round) {
      const Json body = {{"model", options.model},
                         {"prompt", prompt_text(number++, options.prompt_words, random)},
                         {"max_tokens", options.max_tokens},
                         {"temperature", 0},
                         {"ignore_eos", true},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}}};
      bodies.push_back(body.dump());
    }
  }
  return clients;
}

// What a table has a line of.
struct LoadSummary {
  std::int64_t clients = 0;
  std::int64_t requests = 0;
  std::int64_t failed = 0;
  std::string failure = {};  // the first one
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  double seconds = 0;
  std::vector<double> first = {};  // seconds to the first piece of text
  std::vector<double> gaps = {};   // between pieces of a stream
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
    const std::vector<double>& pieces = stream.piece_seconds;
    if (!pieces.empty()) summary.first.push_back(pieces.front());
    for (std::size_t i = 1; i < pieces.size(); ++i)
      summary.gaps.push_back(pieces[i] - pieces[i - 1]);
  }
  std::ranges::sort(summary.first);
  std::ranges::sort(summary.gaps);
  return summary;
}

// Of sorted values; 0 when there are none.
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
          {"first_token_seconds", quantiles(summary.first)},
          {"between_tokens_seconds", quantiles(summary.gaps)}};
}

void print_header(const Options& options) {
  fmt::print("{}: {} words in, {} tokens out, {} per client; seconds\n", options.url,
             options.prompt_words, options.max_tokens, options.rounds);
  fmt::print("{:>7} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "clients", "failed",
             "tokens/s", "first p50", "first p99", "next p50", "next p99", "next max");
}

void print_line(const LoadSummary& summary) {
  fmt::print("{:>7} {:>7} {:>10.1f} {:>10.3f} {:>10.3f} {:>10.4f} {:>10.4f} {:>10.3f}\n",
             summary.clients, summary.failed,
             static_cast<double>(summary.output_tokens) / summary.seconds,
             quantile(summary.first, 0.5), quantile(summary.first, 0.99),
             quantile(summary.gaps, 0.5), quantile(summary.gaps, 0.99), quantile(summary.gaps, 1));
  if (summary.failed > 0) fmt::print("        the first failure: {}\n", summary.failure);
  std::fflush(stdout);
}

void bench_serve(Options options) {
  ServerAddress address = parse_server_url(options.url);
  address.api_key = options.api_key;
  if (options.model.empty()) options.model = first_model(address);
  Json all = Json::array();
  std::int64_t num_failed = 0;
  if (!options.json) print_header(options);
  for (const std::int64_t num_clients : options.clients) {
    const LoadSummary summary = summary_of(
        run_load(address, "/v1/completions", bodies_of(options, num_clients)), num_clients);
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

void add_serve_bench(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  const auto count = CLI::Range(std::int64_t{1}, std::int64_t{1} << 20);
  CLI::App* command = bench.add_subcommand(
      "serve", "Put a running server, this one or another, under many clients");
  command->add_option("--url", options->url,
                      "Where an OpenAI-compatible server is (default: http://127.0.0.1:8000)");
  command->add_option("--api-key", options->api_key, "Its key, if it wants one")
      ->envname("OPENAI_API_KEY");
  command->add_option("--name", options->model, "The model to ask for (default: the first it has)");
  command->add_option("-c,--clients", options->clients, "Streams at once (default: 1,8,64)")
      ->delimiter(',')
      ->check(count);
  command->add_option("-r,--rounds", options->rounds, "Requests of each client (default: 1)")
      ->check(count);
  command->add_option("--prompt-words", options->prompt_words, "Words of a prompt (default: 80)")
      ->check(count);
  command->add_option("--max-tokens", options->max_tokens, "Tokens of an answer (default: 64)")
      ->check(count);
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options] { bench_serve(*options); });
}

}  // namespace graft::cli
