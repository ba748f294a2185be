// Checks on invented machines.

#include "graft/cli/doctor/doctor_checks.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "graft/testing/units.h"

namespace graft::cli {
namespace {

Facts good_machine() {
  Facts facts;
  facts.cpu = {.name = "A CPU",
               .features = {{"avx2", true}, {"amx-int8", false}},
               .isa = "avx512",
               .best_isa = "avx512",
               .next_isa = "amx",
               .next_isa_needs = "amx-tile",
               .num_cores = 8,
               .num_logical_cpus = 16,
               .num_in_machine = 16};
  facts.memory = {.total_bytes = 64 * kGiB,
                  .available_bytes = 60 * kGiB,
                  .huge_pages = "madvise",
                  .read_bytes_per_s = 50e9};
  facts.saved = {.path = "/m.json", .exists = true, .threads = 8, .read_bytes_per_s = 48e9};
  facts.gpus = {.unavailable = "no device", .built_with_cuda = true};
  facts.rules = {.path = "/rules", .count = 3};
  facts.model = {.path = "/models/sprout.gguf", .count = 1};
  facts.host = {
      .libc = "2.36", .built_libc = "2.36", .download_folder = "/m", .free_bytes = 100 * kGiB};
  return facts;
}

Check check_of(const Facts& facts, const std::string& subject) {
  const std::vector<Check> checks = evaluate(facts);
  const auto found = std::ranges::find(checks, subject, &Check::subject);
  EXPECT_NE(found, checks.end()) << subject;
  return found == checks.end() ? Check() : *found;
}

// Expects `mark`, `text` and `advice` for the subject and Good for all others.
void expect_only(const Facts& facts,
                 Mark mark,
                 const std::string& subject,
                 const std::string& text,
                 const std::string& advice) {
  for (const Check& check : evaluate(facts)) {
    EXPECT_EQ(check.mark, check.subject == subject ? mark : Mark::Good) << check.subject;
    EXPECT_EQ(check.advice.empty(), check.mark == Mark::Good) << check.subject;
  }
  const Check check = check_of(facts, subject);
  EXPECT_NE(check.text.find(text), std::string::npos) << check.text;
  EXPECT_NE(check.advice.find(advice), std::string::npos) << check.advice;
  EXPECT_EQ(can_run(evaluate(facts)), mark != Mark::Broken);
}

TEST(Doctor, GoodMachineNeedsNoAdvice) {
  for (const Check& check : evaluate(good_machine())) {
    EXPECT_EQ(check.mark, Mark::Good) << check.subject;
    EXPECT_TRUE(check.advice.empty()) << check.subject;
    EXPECT_FALSE(check.text.empty()) << check.subject;
  }
  EXPECT_EQ(check_of(good_machine(), "kernels").text,
            "avx512, the best this CPU supports (amx needs amx-tile)");
  EXPECT_EQ(check_of(good_machine(), "gpus").text, "none: no NVIDIA GPU and no driver found");
}

TEST(Doctor, MissingRuleFilesAreBroken) {
  Facts facts = good_machine();
  facts.rules = {.error = "not there"};
  expect_only(facts, Mark::Broken, "rules", "not there", "GRAFT_RULES_DIR");
}

TEST(Doctor, UnsupportedIsaIsBrokenLowerIsaIsAWarning) {
  Facts facts = good_machine();
  facts.cpu.isa.clear();
  facts.cpu.isa_error = "GRAFT_CPU_ISA=amx: lacks amx-tile";
  facts.cpu.forced_isa = "amx";
  expect_only(facts, Mark::Broken, "kernels", "amx-tile", "Unset GRAFT_CPU_ISA");

  facts = good_machine();
  facts.cpu.isa = facts.cpu.forced_isa = "avx2";
  expect_only(facts, Mark::Warning, "kernels", "this CPU supports avx512", "Unset");
  facts.cpu.isa = facts.cpu.forced_isa = "avx512";
  EXPECT_EQ(check_of(facts, "kernels").mark, Mark::Good);
}

TEST(Doctor, WarnsWithoutAvx2) {
  Facts facts = good_machine();
  facts.cpu.features = {{"avx2", false}};
  expect_only(facts, Mark::Warning, "features", "avx2 no", "-cpu host");
}

TEST(Doctor, WarnsWithoutDotProduct) {
  Facts facts = good_machine();
  facts.cpu.features = {{"neon", true}, {"dotprod", false}};
  expect_only(facts, Mark::Warning, "features", "dotprod no", "quantized weights are slow");
  facts.cpu.features = {{"neon", true}, {"dotprod", true}};
  EXPECT_EQ(check_of(facts, "features").mark, Mark::Good);
}

TEST(Doctor, WarnsAboutContainerLimits) {
  Facts facts = good_machine();
  facts.cpu.limit = 2.5;
  expect_only(facts, Mark::Warning, "threads", "limited to 2.5 CPUs", "-t 2");
  facts.cpu.limit = 8;
  EXPECT_EQ(check_of(facts, "threads").mark, Mark::Good);

  facts = good_machine();
  facts.memory.limit_bytes = 4 * kGiB;
  expect_only(facts, Mark::Warning, "memory", "limited to 4.0 GiB", "raise");
  facts.memory.limit_bytes = 64 * kGiB;
  EXPECT_EQ(check_of(facts, "memory").mark, Mark::Good);
}

TEST(Doctor, SeveralNumaNodesAreGood) {
  Facts facts = good_machine();
  facts.cpu.num_numa_nodes = 2;
  const Check check = check_of(facts, "threads");
  EXPECT_EQ(check.mark, Mark::Good);
  EXPECT_NE(check.text.find("2 NUMA nodes"), std::string::npos) << check.text;
}

TEST(Doctor, WarnsAboutLoadAndLowMemory) {
  Facts facts = good_machine();
  facts.cpu.load = 12;
  expect_only(facts, Mark::Warning, "load", "12.0", "idle");
  facts = good_machine();
  facts.memory.available_bytes = kGiB / 2;
  expect_only(facts, Mark::Warning, "memory", "512.0 MiB available", "Close other programs");
}

TEST(Doctor, WarnsWithoutHugePages) {
  Facts facts = good_machine();
  facts.memory.huge_pages = "never";
  expect_only(facts, Mark::Warning, "large pages", "never", "madvise");
}

TEST(Doctor, WarnsAboutOutdatedMeasurements) {
  Facts facts = good_machine();
  facts.saved = {.path = "/m.json"};
  expect_only(facts, Mark::Warning, "figures", "none saved in /m.json", "graft machine");
  facts.saved = {};
  expect_only(facts, Mark::Warning, "figures", "HOME is not set", "XDG_CONFIG_HOME");
  facts = good_machine();
  facts.saved.error = "/m.json: broken";
  expect_only(facts, Mark::Warning, "figures", "broken", "graft machine");
  facts = good_machine();
  facts.saved.older_than_program = true;
  expect_only(facts, Mark::Warning, "figures", "older", "graft machine");
  facts = good_machine();
  facts.saved.threads = 4;
  expect_only(facts, Mark::Warning, "figures", "4 threads on 8 cores", "graft machine");
  facts = good_machine();
  facts.saved.read_bytes_per_s = 20e9;
  expect_only(facts, Mark::Warning, "figures", "20.0 GB/s saved, 50.0 GB/s now", "graft machine");
}

TEST(Doctor, ExplainsMissingGpus) {
  Facts facts = good_machine();
  facts.gpus.num_devices = 1;
  expect_only(facts, Mark::Warning, "gpus", "no driver", "Install NVIDIA's driver");
  facts.gpus.driver = "580.1";
  expect_only(facts, Mark::Warning, "gpus", "no device; driver 580.1", "nvidia-smi");
  facts.gpus.built_with_cuda = false;
  expect_only(facts, Mark::Warning, "gpus", "driver 580.1", "CUDA toolkit");
  facts.gpus = {.gpus = {"A Card"}, .driver = "580.1"};
  EXPECT_EQ(check_of(facts, "gpus").text, "A Card; driver 580.1");
  EXPECT_EQ(check_of(facts, "gpus").mark, Mark::Good);
}

TEST(Doctor, ExplainsContainersWithoutGpu) {
  Facts facts = good_machine();
  facts.gpus.num_devices = 1;
  facts.gpus.driver = "580.1";
  facts.host.container = "docker";
  expect_only(facts, Mark::Warning, "gpus", "container (docker) has no access", "--gpus all");
  facts.gpus.has_device_file = true;
  expect_only(facts, Mark::Warning, "gpus", "driver 580.1", "nvidia-smi");
  // A machine without a GPU is no problem of the container.
  facts.gpus = {.unavailable = "no device", .built_with_cuda = true};
  EXPECT_EQ(check_of(facts, "gpus").mark, Mark::Good);
}

TEST(Doctor, WarnsAboutADriverThatIsTooOld) {
  Facts facts = good_machine();
  facts.gpus.driver = "550.1";
  facts.gpus.driver_cuda = 12040;
  facts.gpus.toolkit_cuda = 13020;
  expect_only(facts, Mark::Warning, "gpus", "for CUDA 12.4; graft was built with CUDA 13.2",
              "Update NVIDIA's driver");
  facts.gpus = {.gpus = {"A Card"}, .driver = "580.1", .driver_cuda = 13000, .toolkit_cuda = 13020};
  EXPECT_EQ(check_of(facts, "gpus").mark, Mark::Good);
}

TEST(Doctor, WarnsAboutLockedMemoryOnlyWithGpus) {
  Facts facts = good_machine();
  facts.host.locked_bytes = 64 << 10U;
  EXPECT_EQ(check_of(facts, "locked").mark, Mark::Good);
  facts.gpus.gpus = {"A Card"};
  expect_only(facts, Mark::Warning, "locked", "64.0 KiB", "ulimit -l unlimited");
  facts.host.locked_bytes = 8 << 20U;
  EXPECT_EQ(check_of(facts, "locked").mark, Mark::Good);
}

TEST(Doctor, WarnsAboutNumaBalancingAndDiskSpace) {
  Facts facts = good_machine();
  facts.host.numa_balancing = true;
  EXPECT_EQ(check_of(facts, "NUMA").mark, Mark::Good);
  facts.cpu.num_numa_nodes = 2;
  expect_only(facts, Mark::Warning, "NUMA", "moves pages", "numa_balancing");
  facts = good_machine();
  facts.host.free_bytes = kGiB;
  expect_only(facts, Mark::Warning, "disk", "1.0 GiB free", "XDG_DATA_HOME");
  facts.host.free_bytes.reset();
  expect_only(facts, Mark::Warning, "disk", "unknown", "HOME");
}

TEST(Doctor, WarnsAboutAnOlderCLibraryThanTheBuildHad) {
  Facts facts = good_machine();
  EXPECT_EQ(check_of(facts, "C library").text, "glibc 2.36");
  facts.host.built_libc = "2.4";
  EXPECT_EQ(check_of(facts, "C library").mark, Mark::Good);
  facts.host.built_libc = "2.41";
  expect_only(facts, Mark::Warning, "C library", "glibc 2.36, older than 2.41", "archive");
  facts.host.is_bundled = true;
  EXPECT_EQ(check_of(facts, "C library").text, "glibc 2.36, bundled");
}

TEST(Doctor, MissingBundledModelIsAWarning) {
  Facts facts = good_machine();
  facts.model = {.error = "no model"};
  expect_only(facts, Mark::Warning, "model", "no model", "-m");
}

}  // namespace
}  // namespace graft::cli
