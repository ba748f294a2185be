// `graft chat` in a terminal: tmux sends keys and captures the screen.

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/program.h"

namespace graft::tests {
namespace {

constexpr const char* kTmux = "/usr/bin/tmux";

class Terminal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::filesystem::exists(kTmux)) return;
    ASSERT_EQ(std::getenv("CI"), nullptr) << "tmux is missing";
    GTEST_SKIP() << "tmux is missing";
  }
  void TearDown() override {
    if (std::filesystem::exists(kTmux)) tmux({"kill-server"});
  }

  // Leak detection is off because libedit never frees the names of added functions.
  void start(const std::string& arguments, const std::string& variables = "") {
    const std::string command =
        "env " + variables + " HOME=" + home_.path().string() +
        " ASAN_OPTIONS=detect_leaks=0 LC_ALL=C.UTF-8 GRAFT_CONFIG=/dev/null " +
        GRAFT_PROGRAM " chat --temperature 0 " + arguments + "; echo exit code $?; cat";
    Outcome outcome;
    // A server that was just killed may still hold the socket.
    for (int attempt = 0; attempt < 20; ++attempt) {
      outcome = tmux(
          {"-f", "/dev/null", "new-session", "-d", "-s", "chat", "-x", "80", "-y", "40", command});
      if (outcome.exit_code == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(shows("to leave."));
  }
  void type(const std::string& text) { tmux({"send-keys", "-t", "chat", "-l", text}); }
  void press(const std::string& key) { tmux({"send-keys", "-t", "chat", key}); }
  void send_line(const std::string& text) {
    type(text);
    press("Enter");
  }
  bool is_coloured() {
    return tmux({"capture-pane", "-t", "chat", "-p", "-e"}).out.find('\033') != std::string::npos;
  }
  // -J joins lines that the terminal wrapped, and keeps spaces at their ends.
  std::string screen() {
    return tmux({"capture-pane", "-t", "chat", "-p", "-J", "-S", "-500"}).out;
  }

  bool shows(const std::string& text) {
    return becomes([&](const std::string& now) { return now.find(text) != std::string::npos; },
                   text);
  }
  // Waits for an empty prompt.
  bool is_ready() {
    return becomes(
        [](const std::string& now) {
          // The prompt begins with the share of the context that is used.
          const std::string text = now.substr(0, now.find_last_not_of(" \n") + 1);
          return text.ends_with("\n>>>") || text.ends_with("% >>>");
        },
        "a prompt");
  }
  // Waits up to 30 seconds.
  template <class Condition>
  bool becomes(const Condition& condition, const std::string& expected) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      if (condition(screen())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << "not on the screen: " << expected << "\n" << screen();
    return false;
  }

  Outcome tmux(std::vector<std::string> words) {
    words.insert(words.begin(), {kTmux, "-S", (home_.path() / "socket").string()});
    return run_command(words);
  }

  TempDir home_;
};

TEST_F(Terminal, AnswersAndQuitsWithCtrlD) {
  start("--stats");
  send_line("What is 12 + 30?");
  EXPECT_TRUE(shows("12 + 30 = 42"));
  EXPECT_TRUE(shows("eval rate:"));
  EXPECT_TRUE(is_ready());
  press("C-d");
  EXPECT_TRUE(shows("exit code 0"));
}

TEST_F(Terminal, CtrlCStopsOnlyTheAnswer) {
  start("");
  send_line("/set max_new_tokens=100000");
  send_line("Tell me a story about a fox and a bear.");
  EXPECT_TRUE(shows("here was once"));
  press("C-c");
  press("C-c");
  // The answer was stopped, or had finished before.
  EXPECT_TRUE(is_ready());
  type("dropped line");
  press("C-c");
  send_line("What is 20 + 3?");
  EXPECT_TRUE(shows("20 + 3 = 23"));
  EXPECT_EQ(screen().find("exit code"), std::string::npos) << screen();
}

TEST_F(Terminal, QuotedLinesAreOneMessage) {
  start("");
  send_line("\"\"\"");
  EXPECT_TRUE(shows("..."));
  send_line("What is");
  send_line("12 + 30?");
  send_line("\"\"\"");
  EXPECT_TRUE(shows("42"));
}

TEST_F(Terminal, PastedLinesAreOneMessage) {
  start("");
  tmux({"set-buffer", "What is\n12 +\t30?\n"});
  tmux({"paste-buffer", "-p", "-t", "chat"});
  EXPECT_TRUE(shows("What is\u242412 +"));
  EXPECT_EQ(screen().find("= 42"), std::string::npos) << screen();
  press("Enter");
  EXPECT_TRUE(shows("42"));
  EXPECT_TRUE(is_ready());
}

TEST_F(Terminal, TabCompletesCommandsAndPaths) {
  start("");
  type("/st");
  press("Tab");
  EXPECT_TRUE(shows(">>> /stats "));
  send_line("on");
  EXPECT_TRUE(shows("statistics after every answer: on"));
  type("/s");
  press("Tab");
  EXPECT_TRUE(shows("/save  /set  /stats  /system"));
  EXPECT_TRUE(shows("\n>>> /s"));
}

TEST_F(Terminal, FullContextLeavesOutTheOldestTurns) {
  start("--max-model-len 128");
  for (int i = 1; i <= 6; ++i) {
    send_line("What is " + std::to_string(i) + " + 30?");
    EXPECT_TRUE(shows("\n" + std::to_string(i) + " + 30 = "));
    EXPECT_TRUE(is_ready());
  }
  EXPECT_TRUE(shows("the model no longer sees the first"));
  EXPECT_TRUE(shows("/reset"));
}

TEST_F(Terminal, HandlesResizeAndUnicode) {
  start("");
  type("Grüße, 你好");
  EXPECT_TRUE(shows(">>> Grüße, 你好"));
  tmux({"resize-window", "-t", "chat", "-x", "30", "-y", "20"});
  press("C-c");
  send_line("What is 1 + 2?");
  EXPECT_TRUE(shows("1 + 2 = 3"));
  EXPECT_TRUE(is_ready());
  press("C-d");
  EXPECT_TRUE(shows("exit code 0"));
}

TEST_F(Terminal, KeepsHistory) {
  start("");
  send_line("What is 1 + 2?");
  EXPECT_TRUE(shows("1 + 2 = 3"));
  EXPECT_TRUE(is_ready());
  press("Up");
  EXPECT_TRUE(shows("1 + 2 = 3\n>>> What is 1 + 2?"));
  press("C-c");
  press("C-d");
  EXPECT_TRUE(shows("exit code 0"));
  const std::filesystem::path file = home_.path() / ".local/state/graft/chat_history";
  ASSERT_TRUE(std::filesystem::exists(file));
  namespace fs = std::filesystem;
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Terminal, SearchesTheHistory) {
  start("");
  send_line("What is 1 + 2?");
  EXPECT_TRUE(shows("1 + 2 = 3"));
  EXPECT_TRUE(is_ready());
  send_line("/tokens");
  EXPECT_TRUE(shows("last turn:"));
  press("C-r");
  type("1 +");
  EXPECT_TRUE(shows("bck:1 +"));
  EXPECT_TRUE(shows(">>> What is 1 + 2?\nbck:"));
}

TEST_F(Terminal, CommandsActOnTheConversation) {
  start("--max-model-len 128");
  send_line("What is 12 + 30?");
  EXPECT_TRUE(shows("12 + 30 = 42"));
  EXPECT_TRUE(shows("% >>>"));  // the context meter
  send_line("/copy");
  EXPECT_TRUE(shows("12 bytes sent to the terminal's clipboard"));
  send_line("/system Answer in one word.");
  EXPECT_TRUE(shows("the system prompt applies from the next message"));
  send_line("/system");
  EXPECT_TRUE(shows("\nAnswer in one word."));
  send_line("/model sprout");
  EXPECT_TRUE(shows("\nsprout: "));
  EXPECT_TRUE(is_ready());
  send_line("/tokens");
  EXPECT_TRUE(shows(", 2 messages, 0 of them left out"));
  send_line("/model absent");
  EXPECT_TRUE(shows("absent: no "));
  send_line("/retry");
  EXPECT_TRUE(is_ready());
  press("C-d");
  EXPECT_TRUE(shows("exit code 0"));
}

TEST_F(Terminal, HasColours) {
  start("");
  EXPECT_TRUE(is_coloured());
}

TEST_F(Terminal, NoColourDisablesColours) {
  start("", "NO_COLOR=1");
  EXPECT_FALSE(is_coloured());
}

TEST_F(Terminal, DumbAndUnknownTerminalsGetNoColours) {
  start("", "TERM=dumb");
  send_line("What is 12 + 30?");
  EXPECT_TRUE(shows("12 + 30 = 42"));
  EXPECT_FALSE(is_coloured());
  tmux({"kill-server"});
  start("", "-u TERM");
  send_line("What is 12 + 30?");
  EXPECT_TRUE(shows("12 + 30 = 42"));
  EXPECT_FALSE(is_coloured());
}

// A regular expression forces the model to write an escape sequence that would clear the screen.
TEST_F(Terminal, ControlCharactersOfTheModelDoNotReachIt) {
  const Outcome outcome =
      tmux({"-f", "/dev/null", "new-session", "-d", "-s", "chat", "-x", "80", "-y", "40",
            "echo before; env GRAFT_CONFIG=/dev/null " GRAFT_PROGRAM
            " run --regex 'a\\x1b\\[2Jb' Hello; echo exit code $?; cat"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(shows("exit code 0"));
  EXPECT_TRUE(shows("a?[2Jb"));
  EXPECT_TRUE(shows("before"));
}

}  // namespace
}  // namespace graft::tests
