// `graft bench` end to end, without assertions on speed.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

// A tiny model, and scripts in place of llama-bench.
class BenchCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder_ / "config.json")
        << R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 512,
               "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
               "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
               "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0})";
    const Outcome made = run_program({"synth", folder_ / "config.json", model(), "--type", "Q8_0"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  std::string model() const { return folder_ / "tiny.gguf"; }

  std::string program(const std::string& name, const std::string& script) const {
    std::ofstream(folder_ / name) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
    return folder_ / name;
  }

  Outcome bench(const std::vector<std::string>& more) const { return bench_of("8", "4", more); }
  Outcome bench_of(const std::string& prompts,
                   const std::string& generated,
                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"bench",   "-m", model(), "-p", prompts, "-n",
                                      generated, "-r", "2",     "-t", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }

  TempDir folder_;
};

TEST_F(BenchCommand, PrintsOneRowPerTest) {
  const Outcome outcome = bench({"-b", "1,3"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"Q8_0", "1 thread,", "kernels", "GB/s", "tok/s", "% of bandwidth",
                           "% of peak", "| pp8 ", "| tg4 ", " ± "})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
  // Header, rule, prefill, decode with batch 1 and 3.
  std::size_t num_rows = 0;
  for (std::size_t at = 0; (at = outcome.out.find("\n|", at)) != std::string::npos; ++at)
    ++num_rows;
  EXPECT_EQ(num_rows, 5U) << outcome.out;
}

TEST_F(BenchCommand, PrintsJson) {
  const Outcome outcome = bench({"-b", "3", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = parse_json(outcome.out, "bench");
  EXPECT_EQ(json["threads"], 1);
  EXPECT_EQ(json["model"]["type"], "Q8_0");
  EXPECT_GT(json["limits"]["read_bytes_per_s"].get<double>(), 0);
  EXPECT_GT(json["limits"]["float_flops"].get<double>(), 0);
  ASSERT_EQ(json["tests"].size(), 2U);
  const Json& prefill = json["tests"][0];
  EXPECT_EQ(prefill["test"], "pp8");
  EXPECT_TRUE(prefill["bytes_per_s"].is_null());
  EXPECT_GT(prefill["share_of_flops"].get<double>(), 0);
  const Json& decode = json["tests"][1];
  EXPECT_EQ(decode["test"], "tg4");
  EXPECT_EQ(decode["sequences"], 3);
  EXPECT_EQ(decode["tokens_per_s"]["rounds"].size(), 2U);
  EXPECT_GT(decode["tokens_per_s"]["mean"].get<double>(), 0);
  EXPECT_GT(decode["share_of_read"].get<double>(), 0);
}

TEST_F(BenchCommand, RejectsInvalidArguments) {
  EXPECT_EQ(bench({"--frobnicate"}).exit_code, 2);
  EXPECT_EQ(bench_of("x", "4").exit_code, 2);
  EXPECT_EQ(run_program({"bench", "nonsense", "-m", model()}).exit_code, 2);
  expect_user_error(bench_of("0", "0"), "nothing to measure");
  expect_user_error(bench_of("100000", "0"), "100001");  // more than the model's context
}

TEST_F(BenchCommand, LatencyRunsWithoutTheDefaultTests) {
  const Outcome outcome = run_program({"bench", "latency", "-m", model(), "--input-len", "4",
                                       "--output-len", "2", "--iterations", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("time to first token"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("pp512"), std::string::npos) << outcome.out;
}

TEST_F(BenchCommand, StructuredOutputIsComparedWithPlain) {
  const std::vector<std::string> small = {"bench", "structured",   "-b", "2",        "--input-len",
                                          "8",     "--output-len", "6",  "--rounds", "1"};
  const auto run_small = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = small;
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  };
  const Outcome outcome = run_small({"--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = parse_json(outcome.out, "bench");
  EXPECT_EQ(json["batch"], 2);
  EXPECT_GT(json["step_ms"], 0);
  EXPECT_GT(json["schema_step_ms"], 0);
  EXPECT_EQ(json["any_text_equal_percent"], 100);
  std::ofstream(folder_ / "short.json") << R"({"type": "boolean"})";
  expect_user_error(run_small({"--json-schema", folder_ / "short.json"}),
                    "it must allow longer outputs");
}

// The KV cache holds one of four conversations: only tiers keep the others.
TEST_F(BenchCommand, SessionsFindTheirBlocksInTiers) {
  const Outcome outcome = run_program({"bench",        "sessions",
                                       "-m",           model(),
                                       "-t",           "1",
                                       "--users",      "4",
                                       "--turns",      "3",
                                       "--input-len",  "32",
                                       "--output-len", "2",
                                       "--parallel",   "1",
                                       "--kv-host",    "64M",
                                       "--kv-disk",    "64M",
                                       "--kv-dir",     (folder_ / "kv").string(),
                                       "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json results = parse_json(outcome.out, "bench").at("results");
  ASSERT_EQ(results.size(), 3U);
  const std::int64_t without = results[0].at("cached_tokens");
  EXPECT_EQ(results[0].at("tier"), "none");
  for (std::size_t i = 1; i < 3; ++i)
    EXPECT_EQ(results[i].at("prompt_tokens"), results[0].at("prompt_tokens"));
  EXPECT_GT(results[1].at("cached_tokens").get<std::int64_t>(), without) << results[1];
  // On a busy machine computing these short prompts again may cost less than reading a disk.
  EXPECT_GE(results[2].at("cached_tokens").get<std::int64_t>(), without) << results[2];
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "kv")) << "the run's blocks must be removed";
}

TEST_F(BenchCommand, AlternatesRoundsWithAPeer) {
  const std::string peer = program("peer", "echo \"$@\" >>\"" + (folder_ / "calls").string() +
                                               R"("
echo '[{"n_prompt": 8, "n_gen": 0, "avg_ts": 2.0}, {"n_prompt": 0, "n_gen": 4, "avg_ts": 1.0}]'
)");
  const Outcome table = bench({"--against", peer});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  for (const char* part : {"| pp8 ", "| tg4 ", " 2.00 |", " 1.00 |", "ratio, median (min–max)"})
    EXPECT_NE(table.out.find(part), std::string::npos) << part << " in " << table.out;
  std::ifstream calls(folder_ / "calls");
  std::string call;
  int num_calls = 0;
  for (; std::getline(calls, call); ++num_calls)
    EXPECT_EQ(call, "-m " + model() + " -p 8 -n 4 -t 1 -r 1 -o json");
  EXPECT_EQ(num_calls, 2);

  const Json json = parse_json(bench({"--against", peer, "--json"}).out, "bench");
  ASSERT_EQ(json["tests"].size(), 2U);
  EXPECT_EQ(json["tests"][0]["peers"][0]["tokens_per_s"], (Json{2.0, 2.0}));
  EXPECT_EQ(json["tests"][0]["tokens_per_s"]["rounds"].size(), 2U);
  EXPECT_GT(json["tests"][0]["peers"][0]["ratio"]["median"].get<double>(), 0);
}

TEST_F(BenchCommand, LargerBatchesUseLlamaBatchedBench) {
  const std::string peer = program("peer", "exit 1\n");  // must not be called
  program("llama-batched-bench", "echo \"$@\" >\"" + (folder_ / "batched").string() + R"("
echo "|     1 |      4 |    2 |     10 |    0.100 |    20.00 |    1.000 |     8.00 |    1.100 |     9.09 |" >&2
)");
  const Outcome outcome =
      run_program({"bench", "-m", model(), "-t", "1", "-p", "0", "-n", "4", "-b", "2", "-r", "1",
                   "--against", "a=" + peer, "--against", "b=" + peer});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"| tg4 ", " a tok/s |", " b tok/s |", " 8.00 |"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
  std::ifstream calls(folder_ / "batched");
  std::string call;
  std::getline(calls, call);
  EXPECT_EQ(call, "-m " + model() + " -c 512 -npp 1 -ntg 4 -npl 2 -t 1");
}

TEST_F(BenchCommand, PeerFailureIsAOneLineError) {
  expect_user_error(bench({"--against", folder_ / "absent"}), "absent: cannot start");
  expect_user_error(bench({"--against", program("fails", "echo oh no >&2\nexit 3\n")}),
                    "failed with exit code 3: oh no");
  expect_user_error(bench({"--against", program("talks", "echo hello\n")}), "unexpected output");
  expect_user_error(bench({"--against", program("silent", "echo '[]'\n")}), "no result for pp8");
}

TEST_F(BenchCommand, ComparesSpeculation) {
  const Outcome table = bench({"--speculate", "ngram:1,4"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  for (const char* part : {"--speculate ngram:1,4", "without", "speed-up", "accepted"})
    EXPECT_NE(table.out.find(part), std::string::npos) << part << " in " << table.out;
  const Outcome outcome = bench_of("8", "24", {"--speculate", "ngram:1,4", "-b", "1,2", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = parse_json(outcome.out, "bench");
  ASSERT_EQ(json["results"].size(), 2U);
  EXPECT_EQ(json["results"][1]["batch"], 2);
  for (const Json& result : json["results"]) {
    EXPECT_GT(result["decode_tokens_per_s"].get<double>(), 0);
    EXPECT_GT(result["speculating_tokens_per_s"].get<double>(), 0);
    EXPECT_LE(result["accepted_tokens"].get<int>(), result["draft_tokens"].get<int>());
  }
  const Outcome off = bench({"--speculate", "off"});
  EXPECT_EQ(off.exit_code, 2);
  EXPECT_NE(off.err.find("ngram"), std::string::npos) << off.err;
}

}  // namespace
}  // namespace graft::tests
