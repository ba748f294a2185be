#include "bench/server/attack.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/text/str.h"

#include "bench/server/server.h"
#include "bench/server/watch.h"

namespace graft::bench {
namespace {

constexpr double kMaxKeptMib = 64;         // more than before, after the attack
constexpr double kMaxHealthSeconds = 0.5;  // 99th percentile
constexpr int kSettleSeconds = 15;         // until memory is returned

struct AttackRow {
  double before_mib = 0;
  double after_mib = 0;
  Watch::Result watch = {};
  std::string problem = {};
  std::string note = {};
};

// Every model of the attacks is the bundled one under some name.
int chat_status(const tests::ServerProcess& server) {
  return tests::post(server, tests::kChat, tests::chat_body(), {{"x-api-key", "small"}}).status;
}

// Others may make every step of the engine a full one: a chat of four tokens then takes five of
// them. Relative to a full step, so that a busy machine is no successful attack.
double max_beside_seconds(const tests::ServerProcess& server) {
  std::string words;
  for (int i = 0; i < 1500; ++i)
    words += "word ";
  const Json messages = {{{"role", "user"}, {"content", words}}};
  const Clock::time_point start = Clock::now();
  tests::post(server, tests::kChat, tests::chat_body({{"messages", messages}, {"max_tokens", 1}}),
              {{"x-api-key", "small"}});
  return std::max(2.0, 10 * seconds_since(start));
}

double settled_mib(const tests::ServerProcess& server, double before_mib) {
  double mib = 0;
  for (int i = 0; i < kSettleSeconds * 10; ++i) {
    mib = use_of(server.pid()).resident_mib;
    if (mib < before_mib + kMaxKeptMib / 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return mib;
}

std::string problem_of(const Attack& attack, const AttackRow& row) {
  const double growth = row.watch.peak_resident_mib - row.before_mib;
  const double health = quantile(row.watch.health_seconds, 0.99);
  if (row.watch.num_health_failures > 0)
    return str(row.watch.num_health_failures, " requests for /health failed");
  if (growth > attack.max_growth_mib)
    return fmt::format("memory grew by {:.0f} MiB, max {:.0f}", growth, attack.max_growth_mib);
  if (row.after_mib - row.before_mib > kMaxKeptMib)
    return fmt::format("{:.0f} MiB were kept, max {:.0f}", row.after_mib - row.before_mib,
                       kMaxKeptMib);
  if (health > kMaxHealthSeconds)
    return fmt::format("/health took {:.2f} s, max {:.2f}", health, kMaxHealthSeconds);
  return {};
}

AttackRow run_attack(const Attack& attack, const AttackOptions& options) {
  const TempDir folder;
  std::ofstream(folder / "keys") << "large\nsmall\n";
  // A KV cache of 16,384 tokens: it keeps the memory that it once used.
  std::vector<std::string> arguments = {"--api-key-file", folder / "keys", "--kv-blocks", "1024"};
  for (const std::string& argument : attack.arguments(folder))
    arguments.push_back(argument);
  tests::ServerProcess server(arguments, folder / "errors");
  wait_until_ready(server);
  AttackRow row;
  if (chat_status(server) != 200) fail("the server does not answer before the attack");
  const double beside = max_beside_seconds(server);
  row.before_mib = use_of(server.pid()).resident_mib;
  {
    Watch watch(server.pid(), server.port());
    row.problem = attack.run(
        {.server = server, .folder = folder, .options = options, .max_beside_seconds = beside},
        row.note);
    row.watch = watch.take();
  }
  row.after_mib = settled_mib(server, row.before_mib);
  if (row.problem.empty()) row.problem = problem_of(attack, row);
  if (row.problem.empty() && chat_status(server) != 200) row.problem = "no answer after the attack";
  server.signal(SIGTERM);
  const int exit_code = server.wait();
  if (row.problem.empty() && exit_code != 0) row.problem = str("the server ended with ", exit_code);
  return row;
}

void print_attack(const Attack& attack, const AttackRow& row) {
  fmt::print("{:<22} {:<52} {:>6.0f} {:>6.0f} {:>6.0f} {:>10.3f}  {}\n", attack.name, attack.sent,
             row.before_mib, row.watch.peak_resident_mib, row.after_mib,
             quantile(row.watch.health_seconds, 0.99),
             row.problem.empty() ? "held" + (row.note.empty() ? "" : ": " + row.note)
                                 : "SUCCEEDED: " + row.problem);
  std::fflush(stdout);
}

}  // namespace

bool run_attacks(const AttackOptions& options) {
  fmt::print("{:<22} {:<52} {:>6} {:>6} {:>6} {:>10}  {}\n", "attack", "sent", "before", "peak",
             "after", "health p99", "result");
  fmt::print("{:<22} {:<52} {:>6} {:>6} {:>6} {:>10}\n", "", "", "MiB", "MiB", "MiB", "s");
  int num_run = 0;
  int num_succeeded = 0;
  for (const Attack& attack : attacks()) {
    if (!options.only.empty() && options.only != attack.name) continue;
    ++num_run;
    const AttackRow row = run_attack(attack, options);
    print_attack(attack, row);
    if (!row.problem.empty()) ++num_succeeded;
  }
  if (num_run == 0) fail("no attack is named '", options.only, "'");
  fmt::print("{} of {} attacks succeeded\n", num_succeeded, num_run);
  return num_succeeded == 0;
}

}  // namespace graft::bench
