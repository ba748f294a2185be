// graft bench --against: llama.cpp's llama-bench on the same file with the same numbers.

#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/json.h"
#include "graft/cli/bench_speed.h"
#include "graft/cli/bench_table.h"

namespace graft::cli {

struct Peer {
  std::string program = {};  // a path, or a name to be found in PATH
  std::string model = {};
  std::size_t threads = 1;

  // Tokens per second by the names of tests, one round of each. Throws Error when the program
  // cannot be run, fails, or says nothing of a test.
  std::map<std::string, double> run(const std::vector<SpeedTest>& tests) const;
};

// What `llama-bench -o json` printed. Throws Error (subject: `where`) for anything else.
std::map<std::string, double> parse_peer_output(std::string_view text, const std::string& where);

struct PeerRow {
  SpeedTest test = {};
  std::vector<double> graft = {};  // tokens/s of each round
  std::vector<double> peer = {};
};

std::string comparison_text(const BenchHeader& header,
                            const std::string& program,
                            const std::vector<PeerRow>& rows);

// The header's keys (bench_table.h) and
// {"peer": program,
//  "tests": [{"test", "graft": [tokens/s of each round], "peer": [...],
//             "ratio": {"median", "least", "most"}}]}; bench.cpp adds "notes".
Json comparison_json(const BenchHeader& header,
                     const std::string& program,
                     const std::vector<PeerRow>& rows);

}  // namespace graft::cli
