#include "graft/cli/options/rule_options.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/testing/units.h"

namespace graft::cli {
namespace {

TEST(ParseMemory, NeedsAUnit) {
  EXPECT_EQ(parse_memory("--vram", "24G"), 24 * kGiB);
  EXPECT_EQ(parse_memory("--vram", "24GiB"), 24 * kGiB);
  EXPECT_EQ(parse_memory("--dram", "25769803776"), 24 * kGiB);
  try {
    parse_memory("--vram", "24");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--vram 24: the unit is missing, write 24G");
  }
}

TEST(MachineOptions, DescribeAnotherMachine) {
  MachineOptions options;
  options.gpus = 2;
  options.vram = "24G";
  options.dram = "384G";
  options.cpu_bandwidth = 300;
  options.threads = 64;
  const perf::MachineFigures machine = options.figures();
  ASSERT_EQ(machine.gpus.size(), 2U);
  EXPECT_EQ(machine.gpus[1].vram_bytes, 24 * kGiB);
  EXPECT_EQ(machine.cpu.dram_bytes, 384 * kGiB);
  EXPECT_EQ(machine.cpu.read_bytes_per_s, 300e9);
  EXPECT_EQ(machine.cpu.threads, 64);
  const plan::Machine devices = options.devices(machine);
  EXPECT_EQ(devices.num_gpus, 2);
  EXPECT_TRUE(devices.plan_only);
}

TEST(MachineOptions, NoGpusAreAnotherMachineToo) {
  MachineOptions options;
  options.gpus = 0;
  const perf::MachineFigures machine = options.figures();
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_EQ(machine.gpu_source, "");
  const plan::Machine devices = options.devices(machine);
  EXPECT_EQ(devices.num_gpus, 0);
  EXPECT_TRUE(devices.plan_only);
}

// Sizes that options state are not replaced by what is free.
TEST(MachineOptions, FreeMemoryIsThatOfThisMachine) {
  MachineOptions options;
  options.gpus = 1;
  options.vram = "24G";
  options.dram = "9999G";
  EXPECT_EQ(options.free_figures().gpus.at(0).vram_bytes, 24 * kGiB);
  EXPECT_EQ(options.free_figures().cpu.dram_bytes, 9999 * kGiB);
  options.dram.clear();
  EXPECT_LE(options.free_figures().cpu.dram_bytes, options.figures().cpu.dram_bytes);
  EXPECT_GT(options.free_figures().cpu.dram_bytes, 0U);
}

}  // namespace
}  // namespace graft::cli
