#include "graft/perf/gpus.h"

#include <cstdio>
#include <initializer_list>

#include <gtest/gtest.h>

namespace graft::perf {
namespace {

TEST(Gpus, PublishedFiguresAreFoundByTheNameOfTheDriver) {
  const auto gpu = published_gpu("NVIDIA H200", 150'000'000'000);
  ASSERT_TRUE(gpu.has_value());
  EXPECT_EQ(gpu->name, "NVIDIA H200");
  EXPECT_EQ(gpu->vram_bytes, 150'000'000'000U);
  EXPECT_EQ(gpu->read_bytes_per_s, 4800e9);
  EXPECT_EQ(published_gpu("NVIDIA GeForce RTX 4090", 1)->read_bytes_per_s, 1008e9);
}

TEST(Gpus, SpecificNamesWin) {
  EXPECT_LT(published_gpu("NVIDIA H100 PCIe", 1)->flops,
            published_gpu("NVIDIA H100 80GB HBM3", 1)->flops);
  EXPECT_GT(published_gpu("NVIDIA L40S", 1)->flops, published_gpu("NVIDIA L4", 1)->flops);
}

GpuList list_of(std::initializer_list<const char*> names) {
  GpuList list;
  for (const char* name : names) {
    cuda_abi::DeviceProperties gpu = {};
    std::snprintf(gpu.name, sizeof gpu.name, "%s", name);
    gpu.total_bytes = std::uint64_t{80} << 30U;
    list.gpus.push_back(gpu);
  }
  return list;
}

TEST(Gpus, MeasuredFiguresAreKeptForTheSameGpus) {
  MachineFigures machine;
  machine.gpus = {{.name = "NVIDIA H200", .read_bytes_per_s = 4.2e12}};
  set_found_gpus(machine, list_of({"NVIDIA H200"}));
  EXPECT_EQ(machine.gpus.at(0).read_bytes_per_s, 4.2e12);
  EXPECT_EQ(machine.gpu_source, "this machine's GPUs, measured");
  set_found_gpus(machine, list_of({"NVIDIA H200", "NVIDIA L40S"}));
  ASSERT_EQ(machine.gpus.size(), 2U);
  EXPECT_EQ(machine.gpus[0].read_bytes_per_s, 4800e9);
  EXPECT_EQ(machine.gpus[1].vram_bytes, std::uint64_t{80} << 30U);
  EXPECT_EQ(machine.gpu_source, "NVIDIA H200, published speeds");
  set_found_gpus(machine, list_of({"Voodoo 2"}));
  EXPECT_EQ(machine.gpu_source, "Voodoo 2, speeds assumed");
  set_found_gpus(machine, {});
  EXPECT_TRUE(machine.gpus.empty());
}

TEST(Gpus, UnknownNamesHaveNone) {
  EXPECT_FALSE(published_gpu("Voodoo 2", 1).has_value());
}

TEST(Gpus, FreeMemoryReplacesTheSizes) {
  MachineFigures machine;
  machine.cpu.dram_bytes = 1000;
  machine.gpus = {{.name = "a", .vram_bytes = 100}, {.name = "b", .vram_bytes = 100}};
  GpuList found;
  found.gpus.resize(2);
  found.gpus[0].free_bytes = 30;
  found.gpus[1].free_bytes = 90;
  set_free_memory(machine, found, 700);
  EXPECT_EQ(machine.gpus[0].vram_bytes, 30U);
  EXPECT_EQ(machine.gpus[1].vram_bytes, 90U);
  EXPECT_EQ(machine.cpu.dram_bytes, 700U);
  machine.cpu.dram_bytes = 500;
  set_free_memory(machine, {}, 0);
  EXPECT_EQ(machine.cpu.dram_bytes, 500U) << "less than this machine has free";
  EXPECT_EQ(machine.gpus[0].vram_bytes, 30U);
}

}  // namespace
}  // namespace graft::perf
