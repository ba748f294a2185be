// graft_server_bench attack|soak|streams: proofs that take too long for tests. Each starts servers
// of this build on 127.0.0.1 and exits with 1 when one of its promises is broken.

#include <cstdio>
#include <cstdlib>

#include <CLI/CLI.hpp>

#include "graft/base/error.h"

#include "bench/server/attack.h"
#include "bench/server/soak.h"
#include "bench/server/streams.h"

namespace {

using graft::bench::AttackOptions;
using graft::bench::SoakOptions;
using graft::bench::StreamsOptions;

const CLI::Range kMinutes(0.1, 1440.0);

CLI::App* add_attack(CLI::App& app, AttackOptions& options) {
  CLI::App* command = app.add_subcommand("attack", "Attacks; none of them must succeed");
  command->add_option("--mutations", options.mutations, "Mutated requests per path (default: 300)")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--only", options.only, "Name of one attack, e.g. \"memory bomb\"");
  return command;
}

CLI::App* add_soak(CLI::App& app, SoakOptions& options) {
  CLI::App* command =
      app.add_subcommand("soak", "Mixed load; prints what the server uses over time");
  command->add_option("--minutes", options.minutes, "Duration (default: 60)")->check(kMinutes);
  command->add_option("--intervals", options.intervals, "Rows of the table (default: 12)")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--load", options.load,
                   "Share of the machine's CPU time for the server (default: 0.35)")
      ->check(CLI::Range(0.01, 1.0));
  return command;
}

CLI::App* add_streams(CLI::App& app, StreamsOptions& options) {
  CLI::App* command =
      app.add_subcommand("streams", "Streams undisturbed, then beside clients that misbehave");
  command->add_option("--minutes", options.minutes, "Duration of each run (default: 10)")
      ->check(kMinutes);
  command->add_option("--clients", options.clients, "Streams at once (default: 1000)")
      ->check(CLI::Range(1, 100'000));
  command
      ->add_option("--misbehave", options.misbehave,
                   "Clients that misbehave, in percent of the streams (default: 5)")
      ->check(CLI::Range(0.0, 100.0));
  return command;
}

bool run(int argc, char** argv) {
  CLI::App app("Attacks and long runs of graft serve");
  app.require_subcommand(1);
  bool holds = true;
  AttackOptions attack;
  SoakOptions soak;
  StreamsOptions streams;
  add_attack(app, attack)->callback([&] { holds = graft::bench::run_attacks(attack); });
  add_soak(app, soak)->callback([&] { holds = graft::bench::run_soak(soak); });
  add_streams(app, streams)->callback([&] { holds = graft::bench::run_streams(streams); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return holds;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv) ? 0 : 1;
  } catch (const graft::Error& error) {
    std::fprintf(stderr, "graft_server_bench: %s\n", error.what());
    return 2;
  }
}
