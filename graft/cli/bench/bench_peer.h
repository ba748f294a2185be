// graft bench --against: llama.cpp's llama-bench, or that of a program made from it, on the same
// file with the same numbers; for several sequences the llama-batched-bench beside it.

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
  std::string program = {};  // a path, or a name to be found in PATH

  // "NAME=PROGRAM", or a program, which is called as its file is.
  static Peer parse(const std::string& text);

  // One round of each test. Throws Error when a program cannot be run, fails, or says nothing of a
  // test.
  PeerSpeeds run(const std::string& model,
                 std::size_t threads,
                 const std::vector<SpeedTest>& tests) const;
};

// What `llama-bench -o json` printed. Throws Error (subject: `where`) for anything else.
PeerSpeeds parse_peer_output(std::string_view text, const std::string& where);

// What generating took by the table that llama-batched-bench printed among other things.
PeerSpeeds parse_batched_output(std::string_view text);

struct PeerRow {
  SpeedRow graft = {};
  std::vector<std::vector<double>> peers = {};  // of each peer, tokens/s of each round
};

std::string comparison_text(const BenchHeader& header,
                            const std::vector<Peer>& peers,
                            const std::vector<PeerRow>& rows);

// The header's keys (bench_table.h) and
// {"peers": [{"name", "program"}],
//  "tests": [{"test", ... as in bench_table.h,
//             "peers": [{"tokens_per_s": [of each round],
//                        "ratio": {"median", "least", "most"}}]}]}; bench.cpp adds "notes".
Json comparison_json(const BenchHeader& header,
                     const std::vector<Peer>& peers,
                     const std::vector<PeerRow>& rows);

}  // namespace graft::cli
