// Runs the built program as a user would.

#pragma once

#include <string>
#include <vector>

#include "graft/base/system/temporary_folder.h"

namespace graft::tests {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

struct Surroundings {
  std::string input = {};                     // on standard input
  std::vector<std::string> environment = {};  // "NAME=VALUE", beside what this process has
};

// Arguments are passed as they are; no shell reads them. The first word is a program's path.
Outcome run_command(const std::vector<std::string>& words, const Surroundings& around = {});
Outcome run_program(const std::vector<std::string>& arguments, const Surroundings& around = {});

}  // namespace graft::tests
