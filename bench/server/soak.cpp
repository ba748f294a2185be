#include "bench/server/soak.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/str.h"

#include "bench/server/server.h"
#include "bench/server/watch.h"
#include "tests/server/server_process.h"

namespace graft::bench {
namespace {

using tests::Client;
using tests::Reply;

// SoakCounts of one interval.
struct SoakCounts {
  std::int64_t num_streams = 0;
  std::int64_t num_aborts = 0;
  std::int64_t num_embeddings = 0;
  std::int64_t num_switches = 0;
  std::int64_t num_rotations = 0;
  std::int64_t num_errors = 0;
  std::vector<double> stream_seconds = {};  // of complete streams of the loaded model
};

// What all clients of the soak share.
class Soak {
 public:
  explicit Soak(const SoakOptions& options)
      : load_(options.load * std::thread::hardware_concurrency()),
        second_model_(quantized_model(folder_, "Q8_0")),
        server_({"--model", "first=" + tests::bundled_model(), "--model", "second=" + second_model_,
                 "--max-loaded-models", "1", "--switch-seconds", "1", "--access-log", log()},
                folder_ / "errors") {
    wait_until_ready(server_);
    start_cpu_seconds_ = use_of(server_.pid()).cpu_seconds;
    start_ = Clock::now();
    end_ = start_ + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(options.minutes * 60));
  }

  const tests::ServerProcess& server() const { return server_; }
  Clock::time_point start() const { return start_; }
  Clock::time_point end() const { return end_; }
  bool is_over() const { return Clock::now() >= end_; }
  std::string log() const { return folder_ / "access.log"; }

  // Waits until the server is below its share of the CPU; false when the soak is over.
  bool wait_for_turn() const {
    while (!is_over()) {
      const double used = use_of(server_.pid()).cpu_seconds - start_cpu_seconds_;
      if (used <= load_ * seconds_since(start_)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  template <class Change>
  void count(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(counts_);
  }
  void count_error(const std::string& what) {
    count([](SoakCounts& counts) { ++counts.num_errors; });
    if (num_printed_++ < 20) std::fprintf(stderr, "error: %s\n", what.c_str());
  }
  SoakCounts take_counts() {
    const std::lock_guard lock(mutex_);
    return std::exchange(counts_, {});
  }

 private:
  const double load_;  // cores
  TempDir folder_;
  std::string second_model_;
  tests::ServerProcess server_;
  double start_cpu_seconds_ = 0;
  Clock::time_point start_;
  Clock::time_point end_;
  std::mutex mutex_;
  SoakCounts counts_;
  std::atomic<int> num_printed_ = 0;
};

Json stream_body(std::mt19937_64& random, int max_tokens) {
  const std::string text =
      str("Find the sum of ", random() % 1000, " and ", random() % 1000, ", then tell a story.");
  return {{"model", "first"},
          {"messages", {{{"role", "user"}, {"content", text}}}},
          {"max_tokens", max_tokens},
          {"ignore_eos", true},
          {"stream", true}};
}

void stream(Soak& soak, std::mt19937_64& random) {
  Client client(soak.server().port());
  const Clock::time_point start = Clock::now();
  client.post(tests::kChat, stream_body(random, 8 + static_cast<int>(random() % 57)));
  const Reply reply = client.read_reply();
  if (reply.status != 200 || !reply.body.ends_with("data: [DONE]\n\n"))
    return soak.count_error(str("stream: ", reply.status, " ", reply.body.substr(0, 500)));
  soak.count([&](SoakCounts& counts) {
    ++counts.num_streams;
    counts.stream_seconds.push_back(seconds_since(start));
  });
}

// Disconnects before the response, or within a stream; half of them with a TCP reset.
void abort_stream(Soak& soak, std::mt19937_64& random) {
  Client client(soak.server().port());
  client.post(tests::kChat, stream_body(random, 1000));
  for (std::uint64_t left = random() % 12; left > 0; --left)
    client.read_until("\n\n");
  if (random() % 2 == 0) client.reset();
  soak.count([](SoakCounts& counts) { ++counts.num_aborts; });
}

void embed(Soak& soak, std::mt19937_64& random) {
  Json texts = Json::array();
  for (std::uint64_t left = 1 + random() % 16; left > 0; --left)
    texts.push_back(str("Text ", random() % 100'000, " about rivers and stones."));
  const Reply reply =
      tests::post(soak.server(), "/v1/embeddings", {{"model", "first"}, {"input", texts}});
  if (reply.status != 200 || reply.json()["data"].size() != texts.size())
    return soak.count_error(str("embeddings: ", reply.status, " ", reply.body.substr(0, 500)));
  soak.count([](SoakCounts& counts) { ++counts.num_embeddings; });
}

// The other clients use the first model: each request for the second one exchanges them.
void use_second_model(Soak& soak, std::mt19937_64& /*random*/) {
  const Reply reply =
      tests::post(soak.server(), "/api/chat",
                  {{"model", "second"},
                   {"messages", {{{"role", "user"}, {"content", "What is 12 + 30?"}}}},
                   {"stream", false},
                   {"options", {{"temperature", 0}}}});
  const Json json = reply.json();
  const std::string content =
      reply.status == 200 ? json["message"].value("content", "") : std::string();
  if (content != "12 + 30 = 42")
    return soak.count_error(str("model: ", reply.status, " ", reply.body.substr(0, 500)));
  soak.count([](SoakCounts& counts) { ++counts.num_switches; });
}

// The new file must appear, and the old one must be complete lines.
void rotate_log(Soak& soak, std::mt19937_64& /*random*/) {
  const std::string old = soak.log() + ".1";
  std::filesystem::rename(soak.log(), old);
  soak.server().signal(SIGHUP);
  for (int i = 0; i < 100 && !std::filesystem::exists(soak.log()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (!std::filesystem::exists(soak.log())) return soak.count_error("the log was not reopened");
  std::ifstream lines(old);
  for (std::string line; std::getline(lines, line);) {
    if (!Json::accept(line)) return soak.count_error("not a JSON line in the log: " + line);
  }
  soak.count([](SoakCounts& counts) { ++counts.num_rotations; });
}

struct Activity {
  void (*run)(Soak& soak, std::mt19937_64& random);
  double pause_seconds;  // between two of them
};

constexpr std::array kActivities = {
    Activity{stream, 0.05},      Activity{stream, 0.2}, Activity{stream, 0.5},
    Activity{abort_stream, 0.3}, Activity{embed, 0.3},  Activity{use_second_model, 20},
    Activity{rotate_log, 30},
};

void run_activity(Soak& soak, const Activity& activity, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  while (soak.wait_for_turn()) {
    activity.run(soak, random);
    const Clock::time_point next =
        Clock::now() + std::chrono::milliseconds(static_cast<int>(activity.pause_seconds * 1000));
    while (!soak.is_over() && Clock::now() < next)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

struct SoakRow {
  double minutes = 0;
  Watch::Result use = {};
  double cpu_share = 0;
  SoakCounts counts = {};
};

void print_soak_header(const SoakOptions& options) {
  fmt::print(
      "{:.0f} minutes, load {:.0f} % of the CPU time; latency: complete streams of 8 to 64 tokens "
      "with waits for the other model\n",
      options.minutes, options.load * 100);
  fmt::print(
      "{:>7} {:>9} {:>9} {:>7} {:>5} {:>5} {:>7} {:>6} {:>6} {:>6} {:>6} {:>6} {:>7} {:>7} "
      "{:>10}\n",
      "minutes", "RSS mean", "RSS peak", "threads", "files", "CPU %", "streams", "aborts", "embed",
      "switch", "rotate", "errors", "p50 s", "p99 s", "health p99");
}

void print_interval(const SoakRow& row) {
  const SoakCounts& counts = row.counts;
  fmt::print(
      "{:>7.1f} {:>9.0f} {:>9.0f} {:>7} {:>5} {:>5.0f} {:>7} {:>6} {:>6} {:>6} {:>6} {:>6} "
      "{:>7.3f} {:>7.3f} {:>10.4f}\n",
      row.minutes, row.use.mean_resident_mib, row.use.peak_resident_mib, row.use.max_threads,
      row.use.max_files, row.cpu_share * 100, counts.num_streams, counts.num_aborts,
      counts.num_embeddings, counts.num_switches, counts.num_rotations,
      counts.num_errors + row.use.num_health_failures, quantile(counts.stream_seconds, 0.5),
      quantile(counts.stream_seconds, 0.99), quantile(row.use.health_seconds, 0.99));
  std::fflush(stdout);
}

// The first row has the start: loading, first use of every path.
bool is_flat(const std::vector<SoakRow>& rows) {
  if (rows.size() < 3) return true;
  const Watch::Result& early = rows[1].use;
  const Watch::Result& late = rows.back().use;
  constexpr double kSlackMib = 16;
  constexpr std::int64_t kSlackFiles = 8;  // as many connections as there are clients
  const bool is_flat = late.mean_resident_mib < early.mean_resident_mib * 1.1 + kSlackMib &&
                       late.max_threads <= early.max_threads &&
                       late.max_files <= early.max_files + kSlackFiles;
  if (!is_flat) fmt::print("not flat: compare the second and the last row\n");
  return is_flat;
}

}  // namespace

bool run_soak(const SoakOptions& options) {
  Soak soak(options);
  print_soak_header(options);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kActivities.size(); ++i)
    threads.emplace_back([&soak, i] { run_activity(soak, kActivities[i], i); });
  Watch watch(soak.server().pid(), soak.server().port());
  std::vector<SoakRow> rows;
  std::int64_t num_errors = 0;
  const auto interval = (soak.end() - soak.start()) / options.intervals;
  double last_cpu_seconds = use_of(soak.server().pid()).cpu_seconds;
  Clock::time_point last = soak.start();
  for (int i = 0; i < options.intervals; ++i) {
    std::this_thread::sleep_until(soak.start() + (i + 1) * interval);
    const double cpu_seconds = use_of(soak.server().pid()).cpu_seconds;
    rows.push_back({.minutes = seconds_since(soak.start()) / 60,
                    .use = watch.take(),
                    .cpu_share = (cpu_seconds - last_cpu_seconds) / seconds_since(last) /
                                 std::thread::hardware_concurrency(),
                    .counts = soak.take_counts()});
    last = Clock::now();
    last_cpu_seconds = cpu_seconds;
    print_interval(rows.back());
    num_errors += rows.back().counts.num_errors + rows.back().use.num_health_failures;
  }
  for (std::thread& thread : threads)
    thread.join();
  soak.server().signal(SIGTERM);
  return is_flat(rows) && num_errors == 0;
}

}  // namespace graft::bench
