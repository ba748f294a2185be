// Runs the graft program in a child process.

#pragma once

#include <string>
#include <vector>

#include "graft/base/system/temp_dir.h"

namespace graft::tests {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

struct RunOptions {
  std::string input = {};                     // standard input
  std::vector<std::string> environment = {};  // "NAME=VALUE", added to that of this process
};

// Runs without a shell. The first word is the path of the program.
Outcome run_command(const std::vector<std::string>& words, const RunOptions& around = {});
Outcome run_program(const std::vector<std::string>& arguments, const RunOptions& around = {});
// Without a file of settings.
Outcome run_quietly(const std::vector<std::string>& arguments,
                    const std::string& input = "",
                    const std::vector<std::string>& environment = {});

// Expects exit code 2 and one line on standard error, with `part`.
void expect_user_error(const Outcome& outcome, const std::string& part);

}  // namespace graft::tests
