#include "bench/server/watch.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <unistd.h>

#include "graft/base/text/str.h"

#include "tests/server/server_process.h"

namespace graft::bench {
namespace {

constexpr std::chrono::milliseconds kSampleInterval(100);
// A /health that takes longer fails.
constexpr std::chrono::milliseconds kHealthTimeout(30'000);

std::int64_t count_entries(const std::string& folder) {
  std::error_code error;
  std::int64_t count = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    ++count;
  return count;
}

// User and system time: the 14th and 15th field; the second one is a name in brackets.
double cpu_seconds(const std::string& folder) {
  std::ifstream in(folder + "/stat");
  std::string text;
  std::getline(in, text, ')');
  std::string skipped;
  for (int i = 0; i < 11; ++i)
    in >> skipped;
  double user = 0;
  double system = 0;
  in >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::lround(share * last))];
}

ProcessUse use_of(pid_t pid) {
  const std::string folder = str("/proc/", pid);
  std::ifstream statm(folder + "/statm");
  double size = 0;
  double resident = 0;
  statm >> size >> resident;
  return {.resident_mib = resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1U << 20U),
          .num_threads = count_entries(folder + "/task"),
          .num_files = count_entries(folder + "/fd"),
          .cpu_seconds = cpu_seconds(folder)};
}

Watch::Watch(pid_t pid, std::uint16_t port) : pid_(pid), port_(port), thread_([this] { run(); }) {}

Watch::~Watch() {
  is_stopping_ = true;
  thread_.join();
}

Watch::Result Watch::take() {
  const std::lock_guard lock(mutex_);
  result_.mean_resident_mib =
      num_samples_ == 0 ? 0 : sum_resident_mib_ / static_cast<double>(num_samples_);
  sum_resident_mib_ = 0;
  num_samples_ = 0;
  return std::exchange(result_, {});
}

void Watch::run() {
  while (!is_stopping_) {
    const ProcessUse use = use_of(pid_);
    {
      const std::lock_guard lock(mutex_);
      result_.peak_resident_mib = std::max(result_.peak_resident_mib, use.resident_mib);
      result_.max_threads = std::max(result_.max_threads, use.num_threads);
      result_.max_files = std::max(result_.max_files, use.num_files);
      sum_resident_mib_ += use.resident_mib;
      ++num_samples_;
    }
    probe();
    std::this_thread::sleep_for(kSampleInterval);
  }
}

void Watch::probe() {
  const Clock::time_point start = Clock::now();
  tests::Client client(port_);
  client.send(tests::request_text("GET", "/health"));
  client.set_read_timeout(kHealthTimeout);
  const int status = client.read_reply().status;
  const std::lock_guard lock(mutex_);
  result_.health_seconds.push_back(seconds_since(start));
  if (status != 200) ++result_.num_health_failures;
}

}  // namespace graft::bench
