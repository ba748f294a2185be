#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/server/process/exit_deadline.h"
#include "graft/server/process/limits.h"

namespace graft::server {
namespace {

// Sets a soft limit for the duration of a test.
class SoftLimit {
 public:
  SoftLimit(int resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource_, &before_);
    rlimit limit = before_;
    limit.rlim_cur = value;
    ::setrlimit(resource_, &limit);
  }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;
  ~SoftLimit() { ::setrlimit(resource_, &before_); }

 private:
  int resource_;
  rlimit before_ = {};
};

TEST(ExitDeadline, EndsAProcessThatHangs) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        ExitDeadline deadline;
        deadline.set(1000);
        deadline.set(0.05);
        ::sleep(60);
      },
      testing::ExitedWithCode(0), "");
}

TEST(ExitDeadline, IsCancelledByItsEnd) {
  { ExitDeadline().set(0.05); }
  ::usleep(100'000);
}

TEST(Limits, RaisesTheLimitOfOpenFilesAndReportsWhatFits) {
  const SoftLimit low(RLIMIT_NOFILE, 64);
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  EXPECT_EQ(check_file_limit(1, warn), 1U);
  EXPECT_TRUE(warnings.empty());
  if (limit.rlim_max == RLIM_INFINITY) return;
  EXPECT_EQ(check_file_limit(limit.rlim_max, warn), limit.rlim_max - 128);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find(std::to_string(limit.rlim_max)), std::string::npos) << warnings[0];
}

TEST(Limits, WarnsOfCoreDumps) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  {
    const SoftLimit off(RLIMIT_CORE, 0);
    check_core_limit(warn);
  }
  EXPECT_TRUE(warnings.empty());
  rlimit limit = {};
  ::getrlimit(RLIMIT_CORE, &limit);
  if (limit.rlim_max < 4096) GTEST_SKIP() << "core dumps cannot be enabled";
  const SoftLimit on(RLIMIT_CORE, 4096);
  check_core_limit(warn);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("4096 bytes"), std::string::npos) << warnings[0];
}

}  // namespace
}  // namespace graft::server
