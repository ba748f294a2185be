// `graft doctor` end to end, on the machine that runs the tests.

#include <string>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

// `settings` are environment variables, "NAME=VALUE".
Outcome doctor(const std::vector<std::string>& settings,
               const std::vector<std::string>& flags = {}) {
  std::vector<std::string> words = {"/usr/bin/env"};
  words.insert(words.end(), settings.begin(), settings.end());
  words.insert(words.end(), {GRAFT_PROGRAM, "doctor"});
  words.insert(words.end(), flags.begin(), flags.end());
  return run_command(words);
}

TEST(DoctorCommand, ThisMachineCanRun) {
  const Outcome outcome = doctor({});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  for (const char* part :
       {"processor", "avx2 ", "kernels", "cores", "memory", "GB/s", "gpus", "rules", "model", "✓"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
  EXPECT_EQ(outcome.out.find('\033'), std::string::npos) << "colours without a terminal";
}

TEST(DoctorCommand, MissingRuleFilesAreBroken) {
  const Outcome outcome = doctor({"GRAFT_RULES_DIR=/nowhere"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.out.find("✗ rules"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("→ Reinstall graft, or set GRAFT_RULES_DIR"), std::string::npos)
      << outcome.out;
}

TEST(DoctorCommand, MissingModelIsAWarning) {
  const Outcome outcome = doctor({"GRAFT_MODELS_DIR=/nowhere"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("! model"), std::string::npos) << outcome.out;
}

TEST(DoctorCommand, PrintsJson) {
  const Outcome outcome = doctor({"GRAFT_CPU_ISA=nonsense"}, {"--json"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  const Json json = parse_json(outcome.out, "doctor");
  EXPECT_EQ(json["can_run"], false);
  EXPECT_EQ(json["facts"]["processor"]["forced_isa"], "nonsense");
  EXPECT_EQ(json["facts"]["rules"]["error"], "");
  EXPECT_GT(json["facts"]["rules"]["count"].get<int>(), 0);
  for (const Json& check : json["checks"]) {
    if (check["subject"] == "kernels") {
      EXPECT_EQ(check["state"], "broken") << check;
    }
  }
}

}  // namespace
}  // namespace graft::tests
