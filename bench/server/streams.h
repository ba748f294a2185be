// Many streams at once, undisturbed and then beside clients that misbehave.

#pragma once

#include <cstdint>

namespace graft::bench {

struct StreamsOptions {
  double minutes = 10;  // of each run
  int clients = 1000;
  double misbehave = 5;  // percent of the clients, in addition to them
};

// Prints a row per run. Returns false when a well-behaved request failed or the 99th percentile
// between two tokens was more than twice that of the undisturbed run.
bool run_streams(const StreamsOptions& options);

}  // namespace graft::bench
