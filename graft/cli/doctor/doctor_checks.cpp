#include "graft/cli/doctor/doctor_checks.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "graft/base/system/system.h"
#include "graft/base/text/units.h"

namespace graft::cli {
namespace {

constexpr std::uint64_t kLowMemory = std::uint64_t{1} << 30U;
// Saved bandwidth that differs from the measured one by more than this factor is out of date.
constexpr double kMaxRatio = 2.0;
// A small model with room to load it.
constexpr std::uint64_t kLowDisk = std::uint64_t{10} << 30U;
// Container runtimes set 64 KiB.
constexpr std::uint64_t kLowLockedMemory = std::uint64_t{1} << 20U;

Check good(std::string subject, std::string text) {
  return {.mark = Mark::Good, .subject = std::move(subject), .text = std::move(text)};
}

Check warning(std::string subject, std::string text, std::string advice) {
  return {.mark = Mark::Warning,
          .subject = std::move(subject),
          .text = std::move(text),
          .advice = std::move(advice)};
}

Check broken(std::string subject, std::string text, std::string advice) {
  return {.mark = Mark::Broken,
          .subject = std::move(subject),
          .text = std::move(text),
          .advice = std::move(advice)};
}

Check check_features(const CpuFacts& facts) {
  std::string text;
  std::string slow;
  for (const auto& [feature, present] : facts.features) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", feature, present ? "yes" : "no");
    if ((feature == "avx2" || feature == "dotprod") && !present) slow = feature;
  }
  if (slow.empty()) return good("features", text);
  return warning("features", text,
                 fmt::format("Without {} {} slow. In a virtual machine, pass the host CPU through "
                             "(qemu: -cpu host).",
                             slow, slow == "avx2" ? "everything is" : "quantized weights are"));
}

Check check_kernels(const CpuFacts& facts) {
  if (!facts.isa_error.empty()) return broken("kernels", facts.isa_error, "Unset GRAFT_CPU_ISA.");
  if (facts.forced_isa.empty()) {
    std::string text = facts.isa + ", the best this CPU supports";
    if (!facts.next_isa.empty())
      text += fmt::format(" ({} needs {})", facts.next_isa, facts.next_isa_needs);
    return good("kernels", std::move(text));
  }
  const std::string text = fmt::format("{}, forced by GRAFT_CPU_ISA", facts.isa);
  if (facts.isa == facts.best_isa) return good("kernels", text);
  return warning("kernels", text + "; this CPU supports " + facts.best_isa,
                 "Unset GRAFT_CPU_ISA, unless you compare instruction sets.");
}

Check check_threads(const CpuFacts& facts) {
  std::string text =
      fmt::format("{} cores, {} logical CPUs", facts.num_cores, facts.num_logical_cpus);
  if (facts.num_logical_cpus < facts.num_in_machine)
    text += fmt::format(" of {} in the machine", facts.num_in_machine);
  text +=
      fmt::format(", {} NUMA node{}", facts.num_numa_nodes, facts.num_numa_nodes == 1 ? "" : "s");
  if (facts.limit > 0 && facts.limit < facts.num_cores) {
    return warning("threads",
                   fmt::format("{}; the container is limited to {:.3g} CPUs", text, facts.limit),
                   fmt::format("Run with -t {}, or raise the CPU limit of the container.",
                               std::max(1, static_cast<int>(facts.limit))));
  }
  return good("threads", text);
}

Check check_load(const CpuFacts& facts) {
  const std::string text = fmt::format("{:.1f} (1-minute average)", facts.load);
  if (facts.load <= kBusyLoad * facts.num_logical_cpus) return good("load", text);
  return warning("load", text + ": other programs are running",
                 "Benchmark on an idle machine; speeds are too low now.");
}

Check check_memory(const MemoryFacts& facts) {
  std::string text = fmt::format("{}, {} available", bytes_text(facts.total_bytes),
                                 bytes_text(facts.available_bytes));
  if (facts.limit_bytes > 0 && facts.limit_bytes < facts.total_bytes) {
    return warning(
        "memory", text + "; the container is limited to " + bytes_text(facts.limit_bytes),
        "The weights and the KV cache must fit into the limit: raise it, or use a smaller model.");
  }
  if (facts.available_bytes < kLowMemory)
    return warning("memory", text, "Close other programs: the weights must fit into memory.");
  return good("memory", text);
}

Check check_huge_pages(const MemoryFacts& facts) {
  if (facts.huge_pages == "never") {
    return warning("large pages", "never",
                   "Run echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled for "
                   "faster reads of weights.");
  }
  return good("large pages", facts.huge_pages.empty() ? "unknown" : facts.huge_pages);
}

Check check_bandwidth(const MemoryFacts& facts) {
  if (facts.read_bytes_per_s <= 0)
    return warning("reading", "not measured", "Fix the errors and run `graft doctor` again.");
  const double gigabytes = facts.read_bytes_per_s / 1e9;
  return good("reading",
              fmt::format("{:.1f} GB/s: max {:.0f} decode tok/s for a model that reads 1 GB per "
                          "token",
                          gigabytes, gigabytes));
}

Check check_saved(const SavedFacts& facts, const CpuFacts& cpu, double read) {
  const char* const subject = "figures";
  const std::string again = "Run `graft machine` to measure again.";
  if (!facts.exists) {
    if (facts.path.empty()) {
      return warning(subject, "none saved: HOME is not set",
                     "Set HOME or XDG_CONFIG_HOME, then run `graft machine`.");
    }
    return warning(subject, "none saved in " + facts.path,
                   "Run `graft machine` once: `graft plan` uses its measurements.");
  }
  if (!facts.error.empty()) return warning(subject, facts.error, again);
  if (facts.older_than_program)
    return warning(subject, facts.path + ", older than this program", again);
  if (facts.threads != cpu.num_cores) {
    return warning(subject,
                   fmt::format("{}, measured with {} threads on {} cores", facts.path,
                               facts.threads, cpu.num_cores),
                   again);
  }
  const bool differs = read > 0 && (read > kMaxRatio * facts.read_bytes_per_s ||
                                    facts.read_bytes_per_s > kMaxRatio * read);
  if (differs) {
    return warning(subject,
                   fmt::format("{}, read bandwidth {:.1f} GB/s saved, {:.1f} GB/s now", facts.path,
                               facts.read_bytes_per_s / 1e9, read / 1e9),
                   again);
  }
  return good(subject, facts.path);
}

std::string gpu_text(const GpuFacts& facts) {
  if (facts.gpus.empty() && facts.num_devices == 0 && facts.driver.empty()) {
    return std::string("none: no NVIDIA GPU and no driver found") +
           (facts.built_with_cuda ? "" : "; graft was built without CUDA");
  }
  std::string text = facts.gpus.empty() ? "none: " + facts.unavailable
                                        : fmt::format("{}", fmt::join(facts.gpus, "; "));
  return text + "; " + (facts.driver.empty() ? "no driver" : "driver " + facts.driver);
}

std::string cuda_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Check check_gpus(const GpuFacts& facts, const std::string& container) {
  const char* const subject = "gpus";
  const std::string text = gpu_text(facts);
  const bool has_gpu = facts.num_devices > 0 || !facts.driver.empty();
  if (facts.gpus.empty() && has_gpu && !container.empty() && !facts.has_device_file) {
    return warning(
        subject, text + "; the container (" + container + ") has no access to it",
        "Install NVIDIA's container toolkit and start with --gpus all (docker), --device "
        "nvidia.com/gpu=all (podman) or resources.limits nvidia.com/gpu (kubernetes).");
  }
  // A driver runs programs of its own and of older major versions.
  if (facts.driver_cuda > 0 && facts.toolkit_cuda / 1000 > facts.driver_cuda / 1000) {
    return warning(subject,
                   fmt::format("{}, for CUDA {}; graft was built with CUDA {}", text,
                               cuda_text(facts.driver_cuda), cuda_text(facts.toolkit_cuda)),
                   "Update NVIDIA's driver, or build graft with an older CUDA toolkit.");
  }
  if (!facts.gpus.empty() || (facts.num_devices == 0 && facts.driver.empty()))
    return good(subject, text);
  if (facts.driver.empty()) {
    return warning(subject, text,
                   "Install NVIDIA's driver: a GPU was found, but no driver is loaded.");
  }
  if (!facts.built_with_cuda) {
    return warning(subject, text,
                   "Install the CUDA toolkit (nvcc) and rebuild in a clean build folder.");
  }
  return warning(subject, text,
                 "Check that libgraft_cuda.so is in the folder of libgraft.so, and run "
                 "`nvidia-smi`.");
}

// "2.36" as 2036; 0 for other texts.
int libc_number(const std::string& version) {
  int major = 0;
  int minor = 0;
  return std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 ? major * 1000 + minor : 0;
}

Check check_libc(const HostFacts& facts) {
  const char* const subject = "C library";
  if (facts.is_bundled) return good(subject, "glibc " + facts.libc + ", bundled");
  if (libc_number(facts.libc) >= libc_number(facts.built_libc))
    return good(subject, "glibc " + facts.libc);
  return warning(
      subject,
      "glibc " + facts.libc + ", older than " + facts.built_libc + ", which graft was built with",
      "Use the archive, which has its own (docs/install.md), or build graft here: with a "
      "function missing it would not start.");
}

Check check_locked_memory(const HostFacts& facts, bool has_gpus) {
  const char* const subject = "locked";
  if (!facts.locked_bytes) return good(subject, "unlimited locked memory");
  const std::string text = bytes_text(*facts.locked_bytes) + " of locked memory allowed";
  if (!has_gpus || *facts.locked_bytes >= kLowLockedMemory) return good(subject, text);
  return warning(
      subject, text,
      "Pinned memory makes copies to GPUs faster: run `ulimit -l unlimited`, or start the "
      "container with --ulimit memlock=-1.");
}

Check check_numa_balancing(const HostFacts& facts, int num_nodes) {
  const char* const subject = "NUMA";
  if (num_nodes <= 1) return good(subject, "one node");
  if (!facts.numa_balancing) return good(subject, "automatic balancing off");
  return warning(subject, "the kernel moves pages between nodes (automatic balancing)",
                 "Run echo 0 | sudo tee /proc/sys/kernel/numa_balancing: graft places weights on "
                 "the nodes that read them.");
}

Check check_disk(const HostFacts& facts) {
  const char* const subject = "disk";
  if (!facts.free_bytes) {
    return warning(subject, "the folder for models is unknown",
                   "Set HOME or XDG_DATA_HOME: `graft pull` stores models there.");
  }
  const std::string text =
      fmt::format("{} free for models in {}", bytes_text(*facts.free_bytes), facts.download_folder);
  if (*facts.free_bytes >= kLowDisk) return good(subject, text);
  return warning(subject, text, "Free disk space, or set XDG_DATA_HOME to a larger disk.");
}

Check check_rules(const ResourceFacts& facts) {
  if (facts.error.empty())
    return good("rules", fmt::format("{} files in {}", facts.count, facts.path));
  return broken("rules", facts.error,
                "Reinstall graft, or set GRAFT_RULES_DIR to the `rules` folder of the source.");
}

Check check_model(const ResourceFacts& facts) {
  if (facts.error.empty()) return good("model", facts.path);
  return warning("model", facts.error,
                 "Pass a model with -m, or set GRAFT_MODELS_DIR to the `models` folder of the "
                 "source.");
}

}  // namespace

std::vector<Check> evaluate(const Facts& facts) {
  const CpuFacts& cpu = facts.cpu;
  return {good("processor", cpu.name.empty() ? "unknown" : cpu.name),
          check_features(cpu),
          check_kernels(cpu),
          check_threads(cpu),
          check_load(cpu),
          check_memory(facts.memory),
          check_huge_pages(facts.memory),
          check_bandwidth(facts.memory),
          check_saved(facts.saved, cpu, facts.memory.read_bytes_per_s),
          check_gpus(facts.gpus, facts.host.container),
          check_libc(facts.host),
          check_locked_memory(facts.host, !facts.gpus.gpus.empty()),
          check_numa_balancing(facts.host, cpu.num_numa_nodes),
          check_disk(facts.host),
          check_rules(facts.rules),
          check_model(facts.model)};
}

bool can_run(const std::vector<Check>& checks) {
  return std::ranges::none_of(checks,
                              [](const Check& check) { return check.mark == Mark::Broken; });
}

}  // namespace graft::cli
