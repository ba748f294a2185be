// The KV cache tiers of `graft serve`, and `graft cache` on their folder.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

namespace fs = std::filesystem;

struct TierAnswer {
  std::string text;
  int num_prompt = 0;
  int num_cached = -1;
};

class ServerTiers : public testing::Test {
 protected:
  std::vector<std::string> disk_arguments() const {
    return {"--kv-disk", "256M", "--kv-dir", dir().string()};
  }
  fs::path dir() const { return folder_ / "kv"; }

  // A prompt of some hundred tokens, the same in every test.
  static TierAnswer answer(const ServerProcess& server, const Headers& headers = {}) {
    std::string text = "Here is a list:";
    for (int i = 0; i < 60; ++i)
      text += " item " + std::to_string(i) + ",";
    const Json messages = {{{"role", "user"}, {"content", text + " what is 12 + 30?"}}};
    const Reply reply =
        post(server, kChat, chat_body({{"messages", messages}, {"max_tokens", 12}}), headers);
    EXPECT_EQ(reply.status, 200) << reply.body;
    const Json json = reply.json();
    return {.text = json["choices"][0]["message"]["content"],
            .num_prompt = json["usage"]["prompt_tokens"],
            .num_cached = json["usage"]["prompt_tokens_details"]["cached_tokens"]};
  }
  static bool has_written(const ServerProcess& server, int num_prompt) {
    return eventually([&] {
      return metric(server, "graft:kv_tier_stores_total", R"(,tier="disk")") >=
             static_cast<double>((num_prompt - 1) / 16);
    });
  }

  TempDir folder_;
};

TEST_F(ServerTiers, ARestartKeepsTheDiskTier) {
  TierAnswer first;
  TierAnswer again;
  {
    ServerProcess server(disk_arguments());
    first = answer(server);
    again = answer(server);
    EXPECT_EQ(first.num_cached, 0);
    EXPECT_GT(again.num_cached, 200);
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), 0);
  }
  ServerProcess server(disk_arguments());
  const TierAnswer restarted = answer(server);
  EXPECT_EQ(restarted.num_cached, again.num_cached);
  EXPECT_EQ(restarted.text, first.text);
  EXPECT_GT(metric(server, "graft:kv_tier_loads_total", R"(,tier="disk")"), 0);
  EXPECT_GT(metric(server, "graft:kv_tier_bytes", R"(,tier="disk")"), 0);
}

TEST_F(ServerTiers, AKilledServerLeavesWhatItHasWritten) {
  TierAnswer first;
  {
    ServerProcess server(disk_arguments());
    first = answer(server);
    ASSERT_TRUE(has_written(server, first.num_prompt));
    server.signal(SIGKILL);
    EXPECT_EQ(server.wait(), 128 + SIGKILL);
  }
  const ServerProcess server(disk_arguments());
  const TierAnswer restarted = answer(server);
  EXPECT_EQ(restarted.num_cached, (first.num_prompt - 1) / 16 * 16);
  EXPECT_EQ(restarted.text, first.text);
  EXPECT_EQ(metric(server, "graft:kv_tier_errors_total", R"(,tier="disk")"), 0);
}

TEST_F(ServerTiers, TwoServersShareAFolder) {
  const ServerProcess one(disk_arguments());
  const TierAnswer first = answer(one);
  ASSERT_TRUE(has_written(one, first.num_prompt));
  const ServerProcess two(disk_arguments());
  const TierAnswer second = answer(two);
  EXPECT_GT(second.num_cached, 200);
  EXPECT_EQ(second.text, first.text);
}

TEST_F(ServerTiers, ApiKeysDoNotShareBlocks) {
  std::ofstream(folder_ / "keys") << "one\ntwo\n";
  std::vector<std::string> arguments = disk_arguments();
  arguments.insert(arguments.end(), {"--api-key-file", folder_ / "keys"});
  {
    ServerProcess server(arguments);
    answer(server, {{"x-api-key", "one"}});
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), 0);
  }
  const ServerProcess server(arguments);
  EXPECT_EQ(answer(server, {{"x-api-key", "two"}}).num_cached, 0);
  EXPECT_GT(answer(server, {{"x-api-key", "one"}}).num_cached, 200);
}

TEST_F(ServerTiers, TheCacheCommandListsVerifiesAndClears) {
  const std::vector<std::string> in_dir = {"--kv-dir", dir().string()};
  const auto cache = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "cache");
    words.insert(words.end(), in_dir.begin(), in_dir.end());
    return run_program(words);
  };
  EXPECT_NE(cache({"ls"}).out.find("0 blocks, 0 B"), std::string::npos);
  const Outcome ran = run_program({"run", "--kv-disk", "64M", "--kv-dir", dir().string(),
                                   "--max-new-tokens", "4", std::string(400, 'x') + " and more"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json listed = Json::parse(cache({"ls", "--json"}).out);
  ASSERT_GT(listed["blocks"].size(), 0U);
  EXPECT_GT(listed["bytes"], 0);
  EXPECT_EQ(cache({"verify"}).exit_code, 0);
  const std::string key = listed["blocks"][0]["key"];
  fs::resize_file(dir() / key.substr(0, 2) / (key + ".kv"), 100);
  const Outcome verified = cache({"verify"});
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_NE(verified.out.find(key), std::string::npos) << verified.out;
  EXPECT_NE(verified.out.find("1 are not"), std::string::npos) << verified.out;
  std::ofstream(dir() / "notes.txt") << "mine";
  EXPECT_EQ(cache({"clear"}).exit_code, 0);
  EXPECT_NE(cache({"ls"}).out.find("0 blocks, 0 B"), std::string::npos);
  EXPECT_TRUE(fs::exists(dir() / "notes.txt"));
}

}  // namespace
}  // namespace graft::tests
