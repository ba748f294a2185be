#include "graft/perf/machine.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::perf {
namespace {

TEST(Machine, RoundTripsThroughJson) {
  MachineFigures machine = assumed_machine();
  machine.gpus.push_back({.name = "one",
                          .vram_bytes = 24ULL << 30U,
                          .read_bytes_per_s = 1e12,
                          .flops = 1e14,
                          .pcie_bytes_per_s = 25e9,
                          .pcie_back_bytes_per_s = 20e9,
                          .launch_seconds = 1.5e-6});
  machine.cpu_rates[DType::Q4_K] = {.read_bytes_per_s = 5e9, .flops = 2e10};
  machine.cpu.call_seconds = 2e-5;
  machine.disk.read_bytes_per_s = 5e9;
  const Json json = to_json(machine);
  const MachineFigures back = machine_from_json(json, "x.json");
  EXPECT_EQ(to_json(back), json);
  EXPECT_EQ(back.gpus.at(0).vram_bytes, 24ULL << 30U);
  EXPECT_EQ(back.gpus.at(0).pcie_back_bytes_per_s, 20e9);
  EXPECT_EQ(back.gpus.at(0).launch_seconds, 1.5e-6);
  EXPECT_EQ(back.cpu_rates.at(DType::Q4_K).flops, 2e10);
  EXPECT_GT(back.cpu.dram_bytes, 0U);
  EXPECT_EQ(back.cpu.call_seconds, 2e-5);
  EXPECT_EQ(disk_read_bytes_per_s(back), 5e9);
}

// Files written before GPUs were measured, and by hand.
TEST(Machine, ReadsGpusWithoutMeasuredKeys) {
  const Json json = parse_json(R"({
    "name": "old", "cpu": {"threads": 8, "dram_bytes": 1e9, "read_bytes_per_s": 1e9, "flops": 1e9},
    "gpus": [{"name": "a", "vram_bytes": 25769803776, "read_bytes_per_s": 900e9, "flops": 120e12,
              "pcie_bytes_per_s": 25e9}]})",
                               "x.json");
  const MachineFigures machine = machine_from_json(json, "x.json");
  EXPECT_EQ(machine.gpus.at(0).pcie_bytes_per_s, 25e9);
  EXPECT_EQ(machine.gpus.at(0).pcie_back_bytes_per_s, 0);
  EXPECT_EQ(machine.gpus.at(0).launch_seconds, 0);
  EXPECT_FALSE(to_json(machine)["gpus"][0].contains("launch_seconds"));
  EXPECT_FALSE(to_json(machine).contains("disk"));
  EXPECT_EQ(disk_read_bytes_per_s(machine), 3e9);  // assumed
  EXPECT_FALSE(to_json(machine)["gpus"][0].contains("pcie_back_bytes_per_s"));
}

TEST(Machine, ReportsAllErrorsAtOnce) {
  const Json json = parse_json(R"({
    "cpu": {"threads": 0, "dram_bytes": 1e9, "read_bytes_per_s": "fast", "flops": 1e9, "hz": 1},
    "gpus": [{"name": "a", "launch_seconds": -1}], "cpu_rates": {"Q9": {}}, "color": "red"})",
                               "x.json");
  try {
    machine_from_json(json, "x.json");
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part :
         {"x.json: ", "name is missing", "cpu.threads is 0", "cpu.read_bytes_per_s is \"fast\"",
          "cpu.hz is unknown", "gpus[0].vram_bytes is missing", "gpus[0].launch_seconds is -1",
          "cpu_rates.Q9 is not a type name", "color is unknown"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(Machine, MemoryIsLimitedByTheContainer) {
  EXPECT_EQ(usable_memory(1000, {}), 1000U);
  EXPECT_EQ(usable_memory(1000, {.memory_bytes = 300}), 300U);
  EXPECT_EQ(usable_memory(1000, {.memory_bytes = 3000}), 1000U);
}

TEST(Machine, AnAssumedCpuHasNoMeasuredRates) {
  MachineFigures machine = assumed_machine();
  machine.cpu_rates[DType::Q4_K] = {.read_bytes_per_s = 5e9, .flops = 2e10};
  const double flops_per_thread = machine.cpu.flops / machine.cpu.threads;
  assume_cpu(machine, 300e9, 64);
  EXPECT_EQ(machine.cpu.threads, 64);
  EXPECT_EQ(machine.cpu.read_bytes_per_s, 300e9);
  EXPECT_DOUBLE_EQ(machine.cpu.flops, 64 * flops_per_thread);
  EXPECT_TRUE(machine.cpu_rates.empty());
  EXPECT_EQ(machine.cpu_source, "assumed, 64 threads and 300.0 GB/s");
  assume_cpu(machine, 0, 32);
  EXPECT_EQ(machine.cpu.read_bytes_per_s, 300e9);
}

TEST(Machine, NamesTheFileOfItsFigures) {
  MachineFigures machine = assumed_machine();
  EXPECT_NE(machine.cpu_source.find("assumed"), std::string::npos);
  EXPECT_EQ(machine_from_json(to_json(machine), "x.json").cpu_source, "x.json");
}

}  // namespace
}  // namespace graft::perf
