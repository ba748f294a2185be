// Mixed load on a server for a long time: what it uses must not grow.

#pragma once

namespace graft::bench {

struct SoakOptions {
  double minutes = 60;
  int intervals = 12;  // rows of the table
  double load = 0.35;  // of the machine's CPU time that the server may use
};

// Prints a row per interval. Returns false when a request failed or the use grew.
bool run_soak(const SoakOptions& options);

}  // namespace graft::bench
