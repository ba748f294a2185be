// --repack-cache end to end: concurrent processes, instruction sets, settings.

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/program.h"

namespace graft::tests {
namespace {

namespace fs = std::filesystem;

class RepackCache : public testing::Test {
 protected:
  RepackCache() {
    fs::copy_file(fs::path(GRAFT_SOURCE_DIR) / "models/sprout/sprout-Q6_K.gguf", model_);
  }

  Outcome ask(const std::vector<std::string>& environment = {}) const {
    return run_program({"run", "-m", model_, "--repack-cache", "--temperature", "0",
                        "--max-new-tokens", "24", "What is 12 + 30?"},
                       {.environment = environment});
  }
  static void expect_answer(const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(outcome.out, "12 + 30 = 42\n");
  }

  TempDir folder_;
  std::string model_ = folder_ / "model.gguf";
  fs::path cache_ = folder_ / "model.gguf.graft-packed";
};

TEST_F(RepackCache, ConcurrentProcessesShareOneFile) {
  std::vector<Outcome> outcomes(3);
  {
    std::vector<std::jthread> threads;
    for (Outcome& outcome : outcomes)
      threads.emplace_back([&] { outcome = ask(); });
  }
  for (const Outcome& outcome : outcomes)
    expect_answer(outcome);
  expect_answer(ask());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    names.push_back(entry.path().filename());
  EXPECT_EQ(names.size(), 2U);
}

TEST_F(RepackCache, WorksWithEveryInstructionSet) {
  expect_answer(ask());
  const auto written = fs::last_write_time(cache_);
  for (const std::string isa : {"scalar", "avx2", "avx512", "amx"}) {
    const Outcome outcome = ask({"GRAFT_CPU_ISA=" + isa});
    if (outcome.err.find("this CPU lacks") != std::string::npos) continue;
    expect_answer(outcome);
  }
  EXPECT_EQ(fs::last_write_time(cache_), written) << "the cache was written again";
}

TEST_F(RepackCache, DamagedFileIsAOneLineWarning) {
  expect_answer(ask());
  fs::resize_file(cache_, fs::file_size(cache_) / 2);
  const Outcome outcome = ask();
  EXPECT_EQ(outcome.out, "12 + 30 = 42\n");
  EXPECT_TRUE(outcome.err.starts_with("graft: warning: " + cache_.string() + ": ")) << outcome.err;
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  expect_answer(ask());
}

TEST_F(RepackCache, IsASettingAndOffByDefault) {
  const std::vector<std::string> words = {"run", "-m", model_, "--max-new-tokens", "1", "Hi"};
  EXPECT_EQ(run_program(words).exit_code, 0);
  EXPECT_FALSE(fs::exists(cache_));
  EXPECT_EQ(run_program(words, {.environment = {"GRAFT_REPACK_CACHE=true"}}).exit_code, 0);
  EXPECT_TRUE(fs::exists(cache_));
}

}  // namespace
}  // namespace graft::tests
