// The attacks of which the server promises that they do not succeed, one after the other.

#pragma once

#include <string>
#include <vector>

#include "graft/base/system/temp_dir.h"

#include "tests/server/server_process.h"

namespace graft::bench {

struct AttackOptions {
  int mutations = 300;    // mutated requests per path
  std::string only = {};  // name of one attack; empty: all
};

// The server under attack. Keys: "large" for the attacker, "small" for another client.
struct Target {
  tests::ServerProcess& server;
  const TempDir& folder;
  const AttackOptions& options;
  double max_beside_seconds;  // of a chat of four tokens by another client during the attack
};

struct Attack {
  const char* name;
  const char* sent;
  // Arguments of the server; may write files into the folder.
  std::vector<std::string> (*arguments)(const TempDir& folder);
  // Returns what went wrong; empty: the attack failed. `note` is printed otherwise.
  std::string (*run)(const Target& target, std::string& note);
  double max_growth_mib = 256;  // of the resident memory during the attack
};

const std::vector<Attack>& attacks();

// Prints a row per attack. Returns false when one succeeded.
bool run_attacks(const AttackOptions& options);

}  // namespace graft::bench
