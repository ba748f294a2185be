#include "graft/cli/options/settings.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/cli/commands.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("GRAFT_THREADS"); }
  void TearDown() override { unsetenv("GRAFT_THREADS"); }

  Settings read(const std::string& text) const {
    std::ofstream(file_) << text;
    return Settings(file_);
  }
  std::string error_of(const std::string& text) const {
    try {
      read(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  TempDir folder_;
  std::filesystem::path file_ = folder_ / "graft.yaml";
};

TEST_F(SettingsTest, EnvironmentOverridesFile) {
  const std::string text = "threads: 3\nmax_new_tokens: 7\nmodel-dir: [/a, /b]\n";
  const Settings from_file = read(text);
  EXPECT_EQ(from_file.find("threads")->value, "3");
  EXPECT_EQ(from_file.find("threads")->origin, file_.string() + ":1");
  EXPECT_EQ(from_file.find("max-new-tokens")->value, "7");
  EXPECT_EQ(from_file.find("model-dir")->value, "/a,/b");
  EXPECT_EQ(from_file.find("rules"), nullptr);
  setenv("GRAFT_THREADS", "5", 1);
  EXPECT_EQ(read(text).find("threads")->value, "5");
  EXPECT_EQ(read(text).find("threads")->origin, "GRAFT_THREADS");
}

TEST_F(SettingsTest, FlagsOverrideBoth) {
  int threads = 1;
  double temperature = 0.5;
  Command app("", "graft");
  Command* command = app.add_subcommand("talk", "");
  command->add_option("-t,--threads", threads, "")->check(Range(1, 64));
  command->add_option("--temperature", temperature, "");
  read("threads: 8\ntemperature: 0.25").apply(app);
  EXPECT_EQ(threads, 8);
  EXPECT_EQ(temperature, 0.25);
  app.app().parse("talk --threads 2");
  EXPECT_EQ(threads, 2);
  EXPECT_EQ(temperature, 0.25);
}

TEST_F(SettingsTest, ErrorsNameTheLine) {
  const std::string where = file_.string();
  EXPECT_TRUE(error_of("threads: 2\nthread: 3")
                  .starts_with(where + ":2: unknown setting \"thread\"; expected one of model, "));
  EXPECT_EQ(error_of("threads: {a: 1}"), where + ":1: expected a value or a list of values");
  EXPECT_EQ(error_of("- 1"), where + ":1: expected lines like \"threads: 8\"");
  EXPECT_NE(error_of("threads: [1"), "no error");
  EXPECT_EQ(error_of(""), "no error");
  int threads = 1;
  Command app("", "graft");
  app.add_subcommand("talk", "")->add_option("--threads", threads, "")->check(Range(1, 64));
  try {
    read("threads: many").apply(app);
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(where + ":1: threads: \"many\": "))
        << error.what();
  }
}

TEST_F(SettingsTest, MissingFileIsEmpty) {
  EXPECT_EQ(Settings("/nonexistent/graft.yaml").find("threads"), nullptr);
}

// Every setting must still have its flag.
TEST_F(SettingsTest, EverySettingIsAFlagOfChatOrServe) {
  Command app("", "graft");
  add_chat(app);
  add_serve(app);
  for (const SettingInfo& setting : known_settings()) {
    const std::string flag = "--" + std::string(setting.name);
    const bool is_flag = std::ranges::any_of(app.app().get_subcommands({}), [&](CLI::App* command) {
      return command->get_option_no_throw(flag) != nullptr;
    });
    EXPECT_TRUE(is_flag) << setting.name;
  }
}

TEST_F(SettingsTest, VariablesSeparateFoldersByColons) {
  setenv("GRAFT_MODEL_DIR", "/a:/b,/c", 1);
  const Settings settings = read("");
  unsetenv("GRAFT_MODEL_DIR");
  EXPECT_EQ(settings.find("model-dir")->value, "/a,/b,/c");
  std::vector<std::string> folders;
  Command app("", "graft");
  app.add_subcommand("talk", "")->add_option("--model-dir", folders, "")->delimiter(',');
  settings.apply(app);
  EXPECT_EQ(folders, (std::vector<std::string>{"/a", "/b", "/c"}));
}

TEST_F(SettingsTest, ChosenFileMustExist) {
  setenv("GRAFT_CONFIG", "/nonexistent/graft.yaml", 1);
  EXPECT_THROW(settings_file(), Error);
  setenv("GRAFT_CONFIG", "/dev/null", 1);
  EXPECT_EQ(Settings(settings_file()).find("threads"), nullptr);
  unsetenv("GRAFT_CONFIG");
}

}  // namespace
}  // namespace graft::cli
