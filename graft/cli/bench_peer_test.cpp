#include "graft/cli/bench_peer.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_peer_output(text, "peer");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PeerOutput, GivesSpeedsByTheNamesOfTests) {
  const auto speeds = parse_peer_output(
      R"([{"n_prompt": 512, "n_gen": 0, "avg_ts": 120.5, "model_type": "llama"},
          {"n_prompt": 0, "n_gen": 128, "avg_ts": 17},
          {"n_prompt": 512, "n_gen": 128, "avg_ts": 50}])",
      "peer");
  EXPECT_EQ(speeds, (std::map<std::string, double>{{"pp512", 120.5}, {"tg128", 17}}));
  EXPECT_TRUE(parse_peer_output("[]", "peer").empty());
}

TEST(PeerOutput, WhatIsNotUnderstoodIsOneLine) {
  for (const char* text :
       {"", "[", "usage: peer", "{}", "[1]", R"([{"n_prompt": 512, "n_gen": 0}])",
        R"([{"n_prompt": "x", "n_gen": 0, "avg_ts": 1}])"}) {
    const std::string error = error_of(text);
    EXPECT_TRUE(error.starts_with("peer: its output is not that of llama-bench")) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(PeerTable, RatiosAreOfRoundsAndTheirMedianIsShown) {
  const PeerRow row = {.test = {.num_prompt = 512}, .graft = {10, 40, 30}, .peer = {10, 10, 10}};
  const Json json = comparison_json({}, "peer", {row});
  EXPECT_EQ(json["tests"][0]["test"], "pp512");
  EXPECT_EQ(json["tests"][0]["ratio"], (Json{{"median", 3.0}, {"least", 1.0}, {"most", 4.0}}));
  const std::string text = comparison_text({}, "/some/where/peer", {row});
  EXPECT_NE(text.find("3.00 (1.00–4.00)"), std::string::npos) << text;
  EXPECT_NE(text.find(" peer |"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::cli
