#include "graft/cli/bench/bench_peer.h"

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

TEST(PeerOutput, ParsesSpeedsByTest) {
  const auto speeds = parse_peer_output(
      R"([{"n_prompt": 512, "n_gen": 0, "avg_ts": 120.5, "model_type": "llama"},
          {"n_prompt": 0, "n_gen": 128, "avg_ts": 17},
          {"n_prompt": 512, "n_gen": 128, "avg_ts": 50}])",
      "peer");
  EXPECT_EQ(speeds, (PeerSpeeds{{{.num_prompt = 512}, 120.5}, {{.num_generated = 128}, 17}}));
  EXPECT_TRUE(parse_peer_output("[]", "peer").empty());
}

TEST(PeerOutput, InvalidOutputIsAOneLineError) {
  for (const char* text :
       {"", "[", "usage: peer", "{}", "[1]", R"([{"n_prompt": 512, "n_gen": 0}])",
        R"([{"n_prompt": "x", "n_gen": 0, "avg_ts": 1}])"}) {
    const std::string error = error_of(text);
    EXPECT_TRUE(error.starts_with("peer: unexpected output, expected that of llama-bench"))
        << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(PeerOutput, ParsesTheTableOfBatchedBench) {
  const auto speeds = parse_batched_output(
      "main: n_kv_max = 4096\n\n"
      "|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |   "
      " S t/s |\n"
      "|-------|--------|------|--------|----------|----------|----------|----------|----------|---"
      "-------|\n"
      "|     1 |     32 |    4 |    132 |    0.120 |    33.33 |    2.560 |    50.00 |    2.680 |   "
      " 49.25 |\n"
      "|     1 |     32 |    8 |    264 |    0.120 |    66.67 |    2.560 |   100.00 |    2.680 |   "
      " 98.51 |\n"
      "| a | table | of | other | things | than | those | above |\n"
      "| 1 | 2 | 3 |\n"
      "|  | | | | | | | | |\n"
      "| 1 | nan | 8 | 264 | 0.1 | 66 | 2.5 | 100 |\n"
      "| 1 | 1e300 | 8 | 264 | 0.1 | 66 | 2.5 | 100 |\n"
      "llama_perf_context_print: load time");
  EXPECT_EQ(speeds, (PeerSpeeds{{{.num_generated = 32, .num_sequences = 4}, 50},
                                {{.num_generated = 32, .num_sequences = 8}, 100}}));
  EXPECT_TRUE(parse_batched_output("").empty());
}

TEST(PeerName, DefaultsToTheFileName) {
  EXPECT_EQ(Peer::parse("ik=/opt/ik/llama-bench").name, "ik");
  EXPECT_EQ(Peer::parse("ik=/opt/ik/llama-bench").program, "/opt/ik/llama-bench");
  EXPECT_EQ(Peer::parse("/opt/a=b/llama-bench").name, "llama-bench");
  EXPECT_EQ(Peer::parse("/opt/a=b/llama-bench").program, "/opt/a=b/llama-bench");
  EXPECT_EQ(Peer::parse("llama-bench").program, "llama-bench");
}

TEST(PeerTable, ShowsTheMedianOfPerRoundRatios) {
  const PeerRow row = {.graft = {.test = {.num_prompt = 512}, .tokens_per_s = {10, 40, 30}},
                       .peers = {{10, 10, 10}, {5, 5, 5}}};
  const std::vector<Peer> peers = {Peer::parse("/some/where/peer"), Peer::parse("other=/x=y/z")};
  const Json json = comparison_json({}, peers, {row});
  EXPECT_EQ(json["tests"][0]["test"], "pp512");
  EXPECT_EQ(json["tests"][0]["peers"][0]["ratio"],
            (Json{{"median", 3.0}, {"least", 1.0}, {"most", 4.0}}));
  EXPECT_EQ(json["tests"][0]["peers"][1]["ratio"]["median"], 6.0);
  EXPECT_EQ(json["peers"][1], (Json{{"name", "other"}, {"program", "/x=y/z"}}));
  const std::string text = comparison_text({}, peers, {row});
  EXPECT_NE(text.find("3.00 (1.00–4.00)"), std::string::npos) << text;
  EXPECT_NE(text.find(" peer tok/s |"), std::string::npos) << text;
  EXPECT_NE(text.find(" other tok/s |"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::cli
