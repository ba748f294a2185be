#include "bench/server/streams.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/cli/bench/load_client.h"

#include "bench/server/misbehaviour.h"
#include "bench/server/server.h"
#include "bench/server/watch.h"
#include "tests/server/server_process.h"

namespace graft::bench {
namespace {

constexpr int kMaxTokens = 64;

std::string good_key(int number) {
  return str("good-", number);
}
std::string bad_key(int number) {
  return str("bad-", number);
}

int num_misbehaving(const StreamsOptions& options) {
  return static_cast<int>(std::lround(options.clients * options.misbehave / 100));
}

// About 95 tokens; every prompt starts differently, so that the prefix cache has no effect.
std::string prompt_of(int client, int number) {
  std::string text = str(client, " ", number);
  std::mt19937_64 random(static_cast<std::uint64_t>(client) * 1000 +
                         static_cast<std::uint64_t>(number));
  constexpr std::array kWords = {"river", "seven", "garden", "under", "bright", "stone", "walks"};
  for (int i = 0; i < 80; ++i)
    text += str(" ", kWords[random() % kWords.size()]);
  return text;
}

std::vector<cli::ClientLoad> loads_of(const StreamsOptions& options) {
  constexpr int kNumPrompts = 50;
  std::vector<cli::ClientLoad> loads;
  for (int client = 0; client < options.clients; ++client) {
    cli::ClientLoad load = {.api_key = good_key(client), .repeat_seconds = options.minutes * 60};
    for (int i = 0; i < kNumPrompts; ++i) {
      const Json body = {{"prompt", prompt_of(client, i)},
                         {"max_tokens", kMaxTokens},
                         {"temperature", 0},
                         {"ignore_eos", true},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}}};
      load.bodies.push_back(body.dump());
    }
    loads.push_back(std::move(load));
  }
  return loads;
}

// Threads of clients that misbehave, each in all ways in turn, until it is destroyed.
class Disturbance {
 public:
  Disturbance(std::uint16_t port, int num_clients) {
    for (int i = 0; i < num_clients; ++i)
      threads_.emplace_back([this, port, i] { run(port, i); });
  }
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;
  ~Disturbance() { stop(); }

  std::int64_t stop() {
    is_stopping_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
    return num_done_;
  }

 private:
  void run(std::uint16_t port, int client) {
    const auto ways = misbehaviours();
    const std::string key = bad_key(client);
    for (std::uint64_t number = static_cast<std::uint64_t>(client); !is_stopping_; ++number) {
      ways[number % ways.size()].run(port, key, number * 7919);
      ++num_done_;
    }
  }

  std::atomic<bool> is_stopping_ = false;
  std::atomic<std::int64_t> num_done_ = 0;
  std::vector<std::thread> threads_;
};

struct RunResult {
  std::int64_t num_requests = 0;
  std::int64_t num_failed = 0;
  std::string failure = {};  // the first one
  std::int64_t num_tokens = 0;
  std::int64_t num_misbehaved = 0;
  double seconds = 0;
  std::vector<double> first_token_seconds = {};
  std::vector<double> between_seconds = {};
  Watch::Result watch = {};
  int exit_code = 0;
};

void add(const cli::StreamResult& stream, RunResult& result) {
  ++result.num_requests;
  result.num_tokens += stream.output_tokens;
  const bool is_whole = stream.failure.empty() && stream.output_tokens == kMaxTokens;
  if (!is_whole && result.num_failed++ == 0)
    result.failure = stream.failure.empty() ? "a stream is too short" : stream.failure;
  const std::vector<double>& times = stream.chunk_seconds;
  if (!times.empty()) result.first_token_seconds.push_back(times.front());
  for (std::size_t i = 1; i < times.size(); ++i)
    result.between_seconds.push_back(times[i] - times[i - 1]);
}

RunResult run_once(const StreamsOptions& options, int num_bad) {
  const TempDir folder;
  std::ofstream keys(folder / "keys");
  for (int i = 0; i < options.clients; ++i)
    keys << good_key(i) << "\n";
  for (int i = 0; i < num_misbehaving(options); ++i)
    keys << bad_key(i) << "\n";
  keys.close();
  // The access log goes to a pipe that is not read after the first line.
  tests::ServerProcess server({"--api-key-file", folder / "keys", "--access-log", "-",
                               "--header-timeout", "5", "--body-timeout", "10"},
                              folder / "errors");
  wait_until_ready(server);
  const cli::ServerAddress address = {.host = "127.0.0.1", .port = std::to_string(server.port())};
  RunResult result;
  {
    Watch watch(server.pid(), server.port());
    Disturbance disturbance(server.port(), num_bad);
    const cli::LoadResult load = cli::run_load(address, "/v1/completions", loads_of(options));
    result.num_misbehaved = disturbance.stop();
    result.seconds = load.seconds;
    result.watch = watch.take();
    for (const cli::StreamResult& stream : load.streams)
      add(stream, result);
  }
  server.signal(SIGTERM);
  result.exit_code = server.wait();
  return result;
}

void print_run(const char* name, const RunResult& result) {
  const auto share = [&](const std::vector<double>& values, double q) {
    return quantile(values, q);
  };
  fmt::print(
      "{:<13} {:>11} {:>8} {:>6} {:>8.0f} {:>8.1f} {:>8.1f} {:>8.3f} {:>8.3f} {:>8.3f} "
      "{:>8.0f} {:>10.3f}\n",
      name, result.num_misbehaved, result.num_requests, result.num_failed,
      static_cast<double>(result.num_tokens) / result.seconds,
      share(result.first_token_seconds, 0.5), share(result.first_token_seconds, 0.99),
      share(result.between_seconds, 0.5), share(result.between_seconds, 0.99),
      share(result.between_seconds, 1), result.watch.peak_resident_mib,
      share(result.watch.health_seconds, 0.99));
  if (result.num_failed > 0) fmt::print("  first failure: {}\n", result.failure);
  if (result.exit_code != 0) fmt::print("  the server ended with {}\n", result.exit_code);
  std::fflush(stdout);
}

}  // namespace

bool run_streams(const StreamsOptions& options) {
  const int num_bad = num_misbehaving(options);
  fmt::print(
      "{} streams for {:g} minutes, {} tokens each, then the same beside {} clients that "
      "misbehave:",
      options.clients, options.minutes, kMaxTokens, num_bad);
  for (const Misbehaviour& way : misbehaviours())
    fmt::print(" {}{}", way.name, &way == &misbehaviours().back() ? "\n" : ",");
  fmt::print("{:<13} {:>11} {:>8} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10}\n", "run",
             "misbehaved", "requests", "failed", "tok/s", "TTFT p50", "p99", "ITL p50", "p99",
             "max", "peak MiB", "health p99");
  const RunResult quiet = run_once(options, 0);
  print_run("undisturbed", quiet);
  if (num_bad == 0) return quiet.num_failed == 0 && quiet.exit_code == 0;
  const RunResult disturbed = run_once(options, num_bad);
  print_run("misbehaving", disturbed);
  const double ratio =
      quantile(disturbed.between_seconds, 0.99) / quantile(quiet.between_seconds, 0.99);
  const std::int64_t num_failed = quiet.num_failed + disturbed.num_failed;
  fmt::print("p99 between tokens: ratio {:.2f} (max 2), {} failed\n", ratio, num_failed);
  return num_failed == 0 && ratio <= 2 && quiet.exit_code == 0 && disturbed.exit_code == 0;
}

}  // namespace graft::bench
