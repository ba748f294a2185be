#include "graft/base/system/cgroup.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

class CgroupTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text << '\n';
  }
  CgroupLimits limits() const { return cgroup_limits(folder_ / "groups", folder_ / "root"); }

 private:
  TempDir folder_;
};

TEST_F(CgroupTest, MissingFilesMeanNoLimit) {
  EXPECT_EQ(limits().cpus, 0);
  EXPECT_EQ(limits().memory_bytes, 0U);
}

TEST_F(CgroupTest, ReturnsTheLowestLimitOfAllAncestors) {
  write("groups", "0::/box/job");
  write("root/box/job/memory.max", "max");
  write("root/box/job/cpu.max", "400000 100000");
  write("root/box/memory.max", "1000000");
  write("root/box/cpu.max", "150000 100000");
  write("root/memory.max", "2000000");
  EXPECT_DOUBLE_EQ(limits().cpus, 1.5);
  EXPECT_EQ(limits().memory_bytes, 1000000U);
}

TEST_F(CgroupTest, PageCacheCountsAsFree) {
  write("groups", "0::/job\n4:memory:/job");
  write("root/job/memory.max", "1000");
  write("root/job/memory.current", "700");
  write("root/job/memory.stat", "anon 300\nfile 400");
  EXPECT_EQ(limits().memory_left, 700U);
  write("root/memory/job/memory.limit_in_bytes", "600");
  write("root/memory/job/memory.usage_in_bytes", "500");
  write("root/memory/job/memory.stat", "cache 1\ntotal_cache 100");
  EXPECT_EQ(limits().memory_left, 200U);
}

TEST_F(CgroupTest, ReadsTheRootInsideAContainer) {
  write("groups", "0::/elsewhere/on/the/host");
  write("root/memory.max", "5000");
  write("root/cpu.max", "max 100000");
  EXPECT_EQ(limits().memory_bytes, 5000U);
  EXPECT_EQ(limits().cpus, 0);
}

TEST_F(CgroupTest, ReadsVersion1) {
  write("groups", "4:memory:/job\n1:cpu,cpuacct:/job\n9:name=systemd:/\n0::/");
  write("root/memory/job/memory.limit_in_bytes", "7000");
  write("root/memory/memory.limit_in_bytes", "9223372036854771712");
  write("root/cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  write("root/cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(limits().memory_bytes, 7000U);
  EXPECT_EQ(limits().cpus, 0);
}

}  // namespace
}  // namespace graft
