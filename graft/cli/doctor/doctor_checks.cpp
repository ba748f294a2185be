#include "graft/cli/doctor/doctor_checks.h"

#include <algorithm>

#include <fmt/format.h>

#include "graft/base/system/system.h"
#include "graft/base/text/units.h"

namespace graft::cli {
namespace {

constexpr std::uint64_t kLittleMemory = std::uint64_t{1} << 30U;
// Figures that differ by more than this are of another machine, or of another day's.
constexpr double kOtherMachine = 2.0;

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

Check check_features(const ProcessorFacts& facts) {
  std::string text;
  bool has_avx2 = false;
  for (const auto& [feature, present] : facts.features) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", feature, present ? "yes" : "no");
    has_avx2 |= feature == "avx2" && present;
  }
  if (has_avx2) return good("features", text);
  return warning("features", text,
                 "Without avx2 everything is slow. In a virtual machine, pass the host's processor "
                 "through (qemu: -cpu host).");
}

Check check_kernels(const ProcessorFacts& facts) {
  if (!facts.isa_error.empty())
    return broken("kernels", facts.isa_error, "Unset GRAFT_CPU_ISA: nothing runs with this value.");
  if (facts.forced_isa.empty()) {
    std::string text = facts.isa + ", the best this processor runs";
    if (!facts.next_isa.empty())
      text += fmt::format(" ({} would need {})", facts.next_isa, facts.next_isa_needs);
    return good("kernels", std::move(text));
  }
  const std::string text = fmt::format("{}, forced by GRAFT_CPU_ISA", facts.isa);
  if (facts.isa == facts.best_isa) return good("kernels", text);
  return warning("kernels", text + "; this processor runs " + facts.best_isa,
                 "Unset GRAFT_CPU_ISA, unless you compare levels.");
}

Check check_threads(const ProcessorFacts& facts) {
  std::string text = fmt::format("{} cores, {} processors", facts.num_cores, facts.num_processors);
  if (facts.num_processors < facts.num_in_machine)
    text += fmt::format(" of the machine's {}", facts.num_in_machine);
  text += fmt::format(", {} memory node{}", facts.num_memory_nodes,
                      facts.num_memory_nodes == 1 ? "" : "s");
  if (facts.limit > 0 && facts.limit < facts.num_cores) {
    return warning("threads", fmt::format("{}; limited to the time of {:.3g}", text, facts.limit),
                   fmt::format("Run with -t {}, or raise the container's limit: more threads than "
                               "processors wait for each other.",
                               std::max(1, static_cast<int>(facts.limit))));
  }
  return good("threads", text);
}

Check check_load(const ProcessorFacts& facts) {
  const std::string text = fmt::format("{:.1f} in the last minute", facts.load);
  if (facts.load <= kBusyLoad * facts.num_processors) return good("load", text);
  return warning("load", text + ": other programs run here",
                 "Measure when the machine is idle; until then speeds are too low.");
}

Check check_memory(const MemoryFacts& facts) {
  std::string text = fmt::format("{}, {} available", bytes_text(facts.total_bytes),
                                 bytes_text(facts.available_bytes));
  if (facts.limit_bytes > 0 && facts.limit_bytes < facts.total_bytes) {
    return warning(
        "memory", text + "; limited to " + bytes_text(facts.limit_bytes),
        "A model and its cache must fit into the limit: raise the container's, or choose "
        "a smaller model.");
  }
  if (facts.available_bytes < kLittleMemory)
    return warning("memory", text, "End other programs: a model needs its size in memory.");
  return good("memory", text);
}

Check check_large_pages(const MemoryFacts& facts) {
  if (facts.large_pages == "never") {
    return warning("large pages", "never",
                   "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled: weights "
                   "are then read faster.");
  }
  return good("large pages",
              facts.large_pages.empty() ? "the system does not say" : facts.large_pages);
}

Check check_bandwidth(const MemoryFacts& facts) {
  if (facts.read_bytes_per_s <= 0)
    return warning("reading", "not measured", "Mend what is broken, and run this again.");
  const double gigabytes = facts.read_bytes_per_s / 1e9;
  return good("reading", fmt::format("{:.1f} GB/s: at most {:.0f} tokens/s of a model that reads "
                                     "1 GB per token",
                                     gigabytes, gigabytes));
}

Check check_saved(const SavedFacts& facts, const ProcessorFacts& processor, double read) {
  const char* const subject = "figures";
  const std::string again = "Run `graft machine` to measure again.";
  if (!facts.exists) {
    return warning(subject, "none saved in " + facts.path,
                   "Run `graft machine` once: `graft plan` predicts with its figures.");
  }
  if (!facts.error.empty()) return warning(subject, facts.error, again);
  if (facts.older_than_program)
    return warning(subject, facts.path + ", older than this program", again);
  if (facts.threads != processor.num_cores) {
    return warning(subject,
                   fmt::format("{}, of {} threads where there are {} cores", facts.path,
                               facts.threads, processor.num_cores),
                   again);
  }
  const bool differs = read > 0 && (read > kOtherMachine * facts.read_bytes_per_s ||
                                    facts.read_bytes_per_s > kOtherMachine * read);
  if (differs) {
    return warning(subject,
                   fmt::format("{}, reading {:.1f} GB/s there and {:.1f} now", facts.path,
                               facts.read_bytes_per_s / 1e9, read / 1e9),
                   again);
  }
  return good(subject, facts.path);
}

std::string gpu_text(const GpuFacts& facts) {
  if (facts.gpus.empty() && facts.num_devices == 0 && facts.driver.empty()) {
    return std::string("none: no NVIDIA card and no driver here") +
           (facts.built_with_cuda ? "" : "; this program was built without the CUDA toolkit");
  }
  std::string text = facts.gpus.empty() ? "none: " + facts.unavailable
                                        : fmt::format("{}", fmt::join(facts.gpus, "; "));
  return text + "; " + (facts.driver.empty() ? "no driver" : "driver " + facts.driver);
}

Check check_gpus(const GpuFacts& facts) {
  const char* const subject = "gpus";
  const std::string text = gpu_text(facts);
  if (!facts.gpus.empty() || (facts.num_devices == 0 && facts.driver.empty()))
    return good(subject, text);
  if (facts.driver.empty())
    return warning(subject, text, "Install NVIDIA's driver: a card is here, but none is loaded.");
  if (!facts.built_with_cuda) {
    return warning(subject, text,
                   "Install the CUDA toolkit (nvcc) and build again in a fresh build folder.");
  }
  return warning(subject, text,
                 "See that lib/libgraft_cuda.so stands beside libgraft.so, and what `nvidia-smi` "
                 "says.");
}

Check check_rules(const ResourceFacts& facts) {
  if (facts.error.empty())
    return good("rules", fmt::format("{} files in {}", facts.count, facts.path));
  return broken("rules", facts.error,
                "Install graft again, or set GRAFT_RULES_DIR to the folder `rules` of its source.");
}

Check check_model(const ResourceFacts& facts) {
  if (facts.error.empty()) return good("model", facts.path);
  return warning("model", facts.error,
                 "Name a model with -m, or set GRAFT_MODELS_DIR to the folder `models` of graft's "
                 "source.");
}

}  // namespace

std::vector<Check> judge(const Facts& facts) {
  const ProcessorFacts& processor = facts.processor;
  return {good("processor", processor.name.empty() ? "the system does not say" : processor.name),
          check_features(processor),
          check_kernels(processor),
          check_threads(processor),
          check_load(processor),
          check_memory(facts.memory),
          check_large_pages(facts.memory),
          check_bandwidth(facts.memory),
          check_saved(facts.saved, processor, facts.memory.read_bytes_per_s),
          check_gpus(facts.gpus),
          check_rules(facts.rules),
          check_model(facts.model)};
}

bool can_run(const std::vector<Check>& checks) {
  return std::ranges::none_of(checks,
                              [](const Check& check) { return check.mark == Mark::Broken; });
}

}  // namespace graft::cli
