// graft pull, -m, models, rm and plan against a local server with the protocols of the hubs.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/testing/hub/hub_peer.h"
#include "graft/testing/shared_data.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

namespace fs = std::filesystem;

std::string bundled_bytes() {
  std::ifstream in(bundled_sprout(), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class PullCommand : public ::testing::Test {
 protected:
  PullCommand() {
    const std::string bytes = bundled_bytes();
    peer_.add_file("org/sprout-GGUF", "sprout-Q6_K.gguf", bytes);
    peer_.add_ollama("library/sprout", "small", {{"model", bytes}});
  }

  Outcome graft(const std::vector<std::string>& arguments) const {
    return run_program(arguments, {.environment = peer_.environment(home_.path().string())});
  }

  TempDir home_;
  hub::testing::HubPeer peer_;
};

TEST_F(PullCommand, DownloadsAModelThatOtherCommandsAccept) {
  const Outcome pulled = graft({"pull", "org/sprout-GGUF"});
  ASSERT_EQ(pulled.exit_code, 0) << pulled.err;
  EXPECT_NE(pulled.out.find("models--org--sprout-GGUF/snapshots/"), std::string::npos);
  const std::size_t num_requests = peer_.hub().requests().size();

  const Outcome listed = graft({"models"});
  EXPECT_NE(listed.out.find("org/sprout-GGUF:Q6_K"), std::string::npos) << listed.out;
  EXPECT_NE(listed.out.find("Hugging Face cache"), std::string::npos) << listed.out;

  const Outcome inspected = graft({"inspect", "-m", "org/sprout-GGUF"});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  // What is downloaded needs no network.
  EXPECT_EQ(peer_.hub().requests().size(), num_requests);

  const Outcome removed = graft({"rm", "org/sprout-GGUF:Q6_K"});
  EXPECT_EQ(removed.exit_code, 0) << removed.err;
  EXPECT_EQ(graft({"models"}).out.find("org/sprout-GGUF"), std::string::npos);
}

TEST_F(PullCommand, ModelOptionDownloads) {
  const Outcome inspected = graft({"inspect", "-m", "ollama:sprout:small"});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_NE(graft({"models"}).out.find("sprout:small"), std::string::npos);
  EXPECT_EQ(graft({"inspect", "-m", "sprout:small"}).exit_code, 0);
}

TEST_F(PullCommand, DryRunAndPlanReadOnlyTheHeader) {
  const Outcome dry = graft({"pull", "--dry-run", "org/sprout-GGUF"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_NE(dry.out.find("Fits this machine"), std::string::npos) << dry.out;
  const Json figures =
      parse_json(graft({"pull", "--dry-run", "--json", "org/sprout-GGUF"}).out, "dry run");
  EXPECT_EQ(figures["fits"], true);
  EXPECT_EQ(figures["bytes"], fs::file_size(bundled_sprout()));
  EXPECT_EQ(figures["downloaded_bytes"], 0);
  EXPECT_GT(figures["decode_tokens_per_s"], 0);
  const Outcome plan = graft({"plan", "ollama:sprout:small"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_FALSE(fs::exists(home_ / "cache/huggingface"));
  EXPECT_FALSE(fs::exists(home_ / "data/graft"));
}

TEST_F(PullCommand, PrintsJson) {
  const Json pulled = parse_json(graft({"pull", "--json", "org/sprout-GGUF"}).out, "pull");
  EXPECT_EQ(pulled["name"], "org/sprout-GGUF");
  EXPECT_EQ(pulled["bytes"], fs::file_size(bundled_sprout()));
  EXPECT_TRUE(fs::exists(pulled["path"].get<std::string>()));
  const Json removed = parse_json(graft({"rm", "--json", "org/sprout-GGUF"}).out, "rm");
  EXPECT_EQ(removed["removed"], "org/sprout-GGUF");
  EXPECT_EQ(removed["bytes"], pulled["bytes"]);
}

TEST_F(PullCommand, ReportsErrors) {
  expect_user_error(graft({"pull", "org/missing"}), "org/missing: not found (status 404)");
  expect_user_error(graft({"pull", "org/sprout-GGUF:Q2_K"}), "no GGUF file of type Q2_K");
  expect_user_error(graft({"pull", "sprout"}), "not a model on a hub");
  expect_user_error(graft({"rm", "sprout"}), "no such model");
  const Outcome offline = run_program({"inspect", "-m", "org/sprout-GGUF"}, [&] {
    RunOptions around = {.environment = peer_.environment(home_.path().string())};
    std::ranges::replace(around.environment, std::string("HF_HUB_OFFLINE="),
                         std::string("HF_HUB_OFFLINE=1"));
    return around;
  }());
  expect_user_error(offline, "HF_HUB_OFFLINE is set");
}

TEST_F(PullCommand, UrlsOfServersWithoutRangesAreDownloadedWhole) {
  peer_.set_ranges(false);
  peer_.set_length(false);
  const std::string url = peer_.url() + "/org/sprout-GGUF/resolve/main/sprout-Q6_K.gguf";
  expect_user_error(graft({"plan", url}), "`graft pull` downloads it");
  const Outcome pulled = graft({"pull", url});
  EXPECT_EQ(pulled.exit_code, 0) << pulled.err;
  EXPECT_NE(pulled.err.find("1 file, of unknown size"), std::string::npos) << pulled.err;
  EXPECT_EQ(graft({"inspect", url}).exit_code, 0);
}

}  // namespace
}  // namespace graft::tests
