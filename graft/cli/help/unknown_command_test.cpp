#include "graft/cli/help/unknown_command.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace graft::cli {
namespace {

const std::vector<std::string>& some_commands() {
  static const std::vector<std::string> commands = {"run", "chat", "rm", "models", "serve"};
  return commands;
}

TEST(UnknownCommand, EditDistanceCountsSwapsOnce) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "run"), 3U);
  EXPECT_EQ(edit_distance("rnu", "run"), 1U);
  EXPECT_EQ(edit_distance("chta", "chat"), 1U);
  EXPECT_EQ(edit_distance("srvee", "serve"), 2U);
  EXPECT_EQ(edit_distance("model", "models"), 1U);
}

TEST(UnknownCommand, SuggestsTheNearestCommand) {
  EXPECT_EQ(unknown_command("rnu", some_commands()), "unknown command 'rnu'; did you mean 'run'?");
  EXPECT_EQ(unknown_command("modles", some_commands()),
            "unknown command 'modles'; did you mean 'models'?");
  EXPECT_EQ(unknown_command("x", some_commands()),
            "unknown command 'x'; `graft help` lists the commands");
  EXPECT_EQ(unknown_command("frobnicate", some_commands()),
            "unknown command 'frobnicate'; `graft help` lists the commands");
}

TEST(UnknownCommand, ExplainsCommandsOfOtherPrograms) {
  EXPECT_EQ(unknown_command("list", some_commands()),
            "unknown command 'list'; `graft models` lists the models");
  EXPECT_EQ(unknown_command("show", some_commands()),
            "unknown command 'show'; `graft inspect -m NAME` describes a model");
}

}  // namespace
}  // namespace graft::cli
