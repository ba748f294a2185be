// `graft inspect`, `convert` and `quantize` end to end.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/testing/golden.h"
#include "graft/version.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

TEST(Program, PrintsHelpAndVersion) {
  const Outcome help = run_program({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* command : {"inspect", "convert", "quantize", "devices"})
    EXPECT_NE(help.out.find(command), std::string::npos) << command;
  EXPECT_EQ(run_program({"--version"}).out, "graft " GRAFT_VERSION "\n");
  EXPECT_EQ(run_program({"devices"}).exit_code, 0);
  const Json devices = parse_json(run_program({"devices", "--json"}).out, "devices");
  EXPECT_GT(devices["cpu"]["threads"], 0);
}

TEST(Program, PrintsHelpWithoutACommand) {
  const std::string help = run_program({"--help"}).out;
  for (const Outcome& outcome : {run_program({}), run_program({"help"})}) {
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.out, help);
  }
  EXPECT_EQ(run_program({"help", "run"}).out, run_program({"run", "--help"}).out);
  expect_user_error(run_program({"help", "rnu"}), "did you mean 'run'?");
}

TEST(Program, LostOutputIsAnError) {
  const std::string program = GRAFT_PROGRAM;
  for (const char* command :
       {"models", "config", "inspect", "plan", "devices", "--help", "bench --help", "doctor"}) {
    const Outcome outcome = run_command({"/bin/sh", "-c", program + " " + command + " >/dev/full"});
    EXPECT_EQ(outcome.exit_code, 2) << command;
    EXPECT_EQ(outcome.err, "graft: standard output: cannot write: No space left on device\n")
        << command;
  }
}

TEST(Program, UsageErrorsHaveExitCodeTwo) {
  expect_user_error(run_program({"frobnicate"}), "unknown command 'frobnicate'");
  expect_user_error(run_program({"modles"}), "did you mean 'models'?");
  expect_user_error(run_program({"list"}), "`graft models`");
  EXPECT_EQ(run_program({"convert"}).exit_code, 2);
  EXPECT_EQ(run_program({"inspect", "x", "--frobnicate"}).exit_code, 2);
}

TEST(Inspect, BadFilesAreOneLineErrors) {
  const TempDir folder;
  expect_user_error(run_program({"inspect", folder / "absent.gguf"}), "absent.gguf");
  expect_user_error(run_program({"inspect", folder.path().string()}), "config.json");
  std::ofstream(folder / "empty.gguf");
  expect_user_error(run_program({"inspect", folder / "empty.gguf"}), "empty.gguf");
  std::ofstream(folder / "text.gguf") << "not a model";
  expect_user_error(run_program({"inspect", folder / "text.gguf"}), "text.gguf");
  std::ofstream(folder / "short.gguf") << "GGUF\3";
  expect_user_error(run_program({"inspect", folder / "short.gguf"}), "short.gguf");
}

TEST(Inspect, DescribesSprout) {
  const auto sprout = sprout_checkpoint();
  const Outcome text = run_program({"inspect", sprout.string()});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("deepseek_v3"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("46.6 M"), std::string::npos) << text.out;
  const Json json = parse_json(run_program({"inspect", sprout.string(), "--json"}).out, "inspect");
  EXPECT_EQ(json["bytes"], 93100352);  // total_size in the index of the checkpoint
  EXPECT_EQ(json["config"]["hidden_size"], 512);
  EXPECT_EQ(json["config"]["moe"]["num_experts"], 16);
  EXPECT_EQ(json["tokenizer"]["tokens"], 8192);
  EXPECT_EQ(json["files"].size(), 3U);
}

TEST(Convert, RejectsInvalidArguments) {
  const auto sprout = sprout_checkpoint();
  const TempDir folder;
  expect_user_error(run_program({"convert", sprout.string(), folder / "x.gguf", "--type", "Q9"}),
                    "\"Q9\": unknown, expected one of F32");
  expect_user_error(run_program({"convert", sprout.string(), folder / "no/such/x.gguf"}),
                    "no/such/x.gguf");
  const std::string file = folder / "x.gguf";
  ASSERT_EQ(run_program({"convert", sprout.string(), file}).exit_code, 0);
  expect_user_error(run_program({"quantize", file, file, "Q8_0"}),
                    "output and input are the same file");
}

TEST(Quantize, OneStepEqualsTwoSteps) {
  const auto sprout = sprout_checkpoint();
  const TempDir folder;
  const std::string bf16 = folder / "bf16.gguf";
  const std::string in_two_steps = folder / "two.gguf";
  const std::string in_one_step = folder / "one.gguf";
  ASSERT_EQ(run_program({"convert", sprout.string(), bf16}).exit_code, 0);
  ASSERT_EQ(run_program({"quantize", bf16, in_two_steps, "Q4_K_M"}).exit_code, 0);
  const Outcome direct =
      run_program({"quantize", sprout.string(), in_one_step, "Q4_K_M", "-t", "3", "--json"});
  ASSERT_EQ(direct.exit_code, 0) << direct.err;
  const Json result = parse_json(direct.out, "quantize");
  EXPECT_EQ(result["bytes"], std::filesystem::file_size(in_one_step));
  EXPECT_GT(result["types"]["Q4_K"]["tensors"], 0) << direct.out;
  EXPECT_NE(direct.err.find("no multiple of 256"), std::string::npos) << direct.err;
  const auto one = models::open_checkpoint(in_one_step);
  const auto two = models::open_checkpoint(in_two_steps);
  ASSERT_EQ(one->tensors().size(), two->tensors().size());
  for (const formats::TensorInfo& tensor : one->tensors()) {
    const formats::TensorInfo* other = two->find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_EQ(tensor.dtype, other->dtype) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(tensor.data, other->data)) << tensor.name;
  }
}

}  // namespace
}  // namespace graft::tests
