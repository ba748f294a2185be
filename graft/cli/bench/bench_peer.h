// graft bench --against: runs llama.cpp's llama-bench (or that of a fork) on the same file with the
// same parameters. Batch sizes above 1 use the llama-batched-bench in the same folder.

#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/cli/bench/bench_speed.h"
#include "graft/cli/bench/bench_table.h"

namespace graft::cli {

using PeerSpeeds = std::map<SpeedTest, double>;  // tokens per second

struct Peer {
  std::string name = {};
  std::string program = {};  // a path, or a name in PATH

  // "NAME=PROGRAM" or "PROGRAM", whose file name is then the name.
  static Peer parse(const std::string& text);

  // Runs each test once. Throws Error when a program cannot be started, fails, or reports no result
  // for a test.
  PeerSpeeds run(const std::string& model,
                 std::size_t threads,
                 const std::vector<SpeedTest>& tests) const;
};

// Parses the output of `llama-bench -o json`. Throws Error that begins with `where`.
PeerSpeeds parse_peer_output(std::string_view text, const std::string& where);

// Decode speeds from the table in the output of llama-batched-bench; other lines are skipped.
PeerSpeeds parse_batched_output(std::string_view text);

struct PeerRow {
  SpeedRow graft = {};
  std::vector<std::vector<double>> peers = {};  // [peer][round] tok/s
};

std::string comparison_text(const BenchHeader& header,
                            const std::vector<Peer>& peers,
                            const std::vector<PeerRow>& rows);

// The header's keys (bench_table.h) and
// {"peers": [{"name", "program"}],
//  "tests": [{"test", ... as in bench_table.h,
//             "peers": [{"tokens_per_s": [one per round],
//                        "ratio": {"median", "least", "most"}}]}]}; bench.cpp adds "notes".
Json comparison_json(const BenchHeader& header,
                     const std::vector<Peer>& peers,
                     const std::vector<PeerRow>& rows);

}  // namespace graft::cli
