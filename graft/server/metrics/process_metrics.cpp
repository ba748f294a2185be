#include "graft/server/metrics/process_metrics.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "graft/server/metrics/prometheus.h"
#include "graft/version.h"

namespace graft::server {
namespace {

// Numbers of the fields in proc(5), less those before the state.
constexpr std::size_t kNumThreads = 17;
constexpr std::size_t kStartTicks = 19;
constexpr std::size_t kVirtualBytes = 20;
constexpr std::size_t kResidentPages = 21;

// The fields of /proc/self/stat after the command, which may contain blanks: the first is the
// state.
std::vector<std::string> stat_fields() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return {};
  std::istringstream rest(text.substr(end + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

// Unix time of the system's start.
std::optional<double> boot_seconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  while (file >> word) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return std::nullopt;
}

double cpu_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

std::size_t num_open_files() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

std::uint64_t resident_bytes() {
  const std::vector<std::string> fields = stat_fields();
  if (fields.size() <= kResidentPages) return 0;
  return std::stoull(fields[kResidentPages]) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string process_metrics() {
  std::string out;
  MetricWriter metrics(out);
  rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    metrics.add_single("process_cpu_seconds_total", "counter", "CPU time in seconds.",
                       cpu_seconds(usage.ru_utime) + cpu_seconds(usage.ru_stime));
  }
  const std::vector<std::string> fields = stat_fields();
  if (fields.size() > kResidentPages) {
    metrics.add_single(
        "process_resident_memory_bytes", "gauge", "Resident memory, mapped files included.",
        std::stod(fields[kResidentPages]) * static_cast<double>(::sysconf(_SC_PAGESIZE)));
    metrics.add_single("process_virtual_memory_bytes", "gauge", "Virtual memory.",
                       std::stod(fields[kVirtualBytes]));
    metrics.add_single("process_num_threads", "gauge", "Number of threads.",
                       std::stod(fields[kNumThreads]));
    if (const auto boot = boot_seconds()) {
      metrics.add_single(
          "process_start_time_seconds", "gauge", "Unix time of the start in seconds.",
          *boot + std::stod(fields[kStartTicks]) / static_cast<double>(::sysconf(_SC_CLK_TCK)));
    }
  }
  metrics.add_single("process_open_fds", "gauge", "Number of open files.",
                     static_cast<double>(num_open_files()));
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    metrics.add_single("process_max_fds", "gauge", "Max number of open files.",
                       static_cast<double>(limit.rlim_cur));
  }
  return out;
}

std::string build_metrics() {
  std::string out;
  MetricWriter metrics(out);
  metrics.begin("graft:build_info", "gauge", "The version and the compiler of the program.");
  metrics.add({{"version", GRAFT_VERSION}, {"compiler", __VERSION__}}, 1);
  return out;
}

}  // namespace graft::server
