#include "graft/cli/chat/candidates.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"

namespace graft::cli {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"help", "save", "set", "stats"};
using Words = std::vector<std::string>;

Words test_models() {
  return {"sprout", "qwen-0.6b", "qwen-8b"};
}

TEST(Candidates, Commands) {
  EXPECT_EQ(complete("/h", kNames, test_models).words, Words{"/help"});
  EXPECT_EQ(complete("/s", kNames, test_models).words, (Words{"/save", "/set", "/stats"}));
  EXPECT_EQ(complete("/s", kNames, test_models).common_start(), "/s");
  EXPECT_EQ(complete("/st", kNames, test_models).common_start(), "/stats");
  EXPECT_EQ(complete("/st", kNames, test_models).replaced, 3U);
  EXPECT_TRUE(complete("hello", kNames, test_models).words.empty());
  EXPECT_TRUE(complete("", kNames, test_models).words.empty());
}

TEST(Candidates, Paths) {
  const TempDir folder;
  std::ofstream(folder / "notes.txt") << "x";
  std::ofstream(folder / ".hidden") << "x";
  std::filesystem::create_directory(folder / "notes");
  const std::string base = folder.path().string() + "/";
  EXPECT_EQ(complete("see @" + base, kNames, test_models).words,
            (Words{base + "notes.txt", base + "notes/"}));
  EXPECT_EQ(complete("see @" + base + "no", kNames, test_models).common_start(), base + "notes");
  EXPECT_EQ(complete("/save " + base + "notes.", kNames, test_models).words,
            Words{base + "notes.txt"});
  EXPECT_EQ(complete("@" + base + ".h", kNames, test_models).words, Words{base + ".hidden"});
  EXPECT_TRUE(complete("@" + base + "absent/", kNames, test_models).words.empty());
}

TEST(Candidates, ModelNames) {
  EXPECT_EQ(complete("/model q", kNames, test_models).words, (Words{"qwen-0.6b", "qwen-8b"}));
  EXPECT_EQ(complete("/model sp", kNames, test_models).words, Words{"sprout"});
  EXPECT_TRUE(complete("/save sprou", kNames, test_models).words.empty());
}

}  // namespace
}  // namespace graft::cli
