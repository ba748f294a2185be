#include "tests/program.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graft/base/check.h"

namespace graft::tests {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The null-terminated array that posix_spawn expects.
std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words)
    out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// The environment of this process with the given variables replaced.
std::vector<std::string> environment_with(const std::vector<std::string>& given) {
  std::vector<std::string> environment = given;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string entry = *variable;
    const std::string name = entry.substr(0, entry.find('=') + 1);
    const bool is_given =
        std::ranges::any_of(given, [&](const std::string& g) { return g.starts_with(name); });
    if (!is_given) environment.push_back(entry);
  }
  return environment;
}

}  // namespace

Outcome run_quietly(const std::vector<std::string>& arguments,
                    const std::string& input,
                    const std::vector<std::string>& environment) {
  RunOptions around = {.input = input, .environment = {"GRAFT_CONFIG=/dev/null"}};
  around.environment.insert(around.environment.end(), environment.begin(), environment.end());
  return run_program(arguments, around);
}

Outcome run_program(const std::vector<std::string>& arguments, const RunOptions& around) {
  std::vector<std::string> words = {GRAFT_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_command(words, around);
}

Outcome run_command(const std::vector<std::string>& words, const RunOptions& around) {
  const TempDir folder;
  std::ofstream(folder / "in") << around.input;
  std::vector<std::string> copies = words;  // posix_spawn wants mutable strings
  std::vector<char*> argv = pointers(copies);
  std::vector<std::string> environment = environment_with(around.environment);
  std::vector<char*> envp = pointers(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT;
  posix_spawn_file_actions_addopen(&actions, 0, (folder / "in").c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, (folder / "out").c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, (folder / "err").c_str(), flags, 0600);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  GRAFT_CHECK(error == 0, words[0], ": ", error);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = read_text(folder / "out"),
          .err = read_text(folder / "err")};
}

void expect_user_error(const Outcome& outcome, const std::string& part) {
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("graft: ")) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
}

}  // namespace graft::tests
