#include "graft/perf/measure/measure_disk.h"

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"

namespace graft::perf {
namespace {

TEST(MeasureDisk, ReadsATemporaryFile) {
  const TempDir folder;
  const MeasuredDisk disk = measure_disk(folder.path(), std::uint64_t{16} << 20U);
  EXPECT_EQ(disk.error, "");
  EXPECT_GT(disk.figures.read_bytes_per_s, 1e6);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(MeasureDisk, MissingFolderIsAnError) {
  const MeasuredDisk disk = measure_disk("/no/such/folder");
  EXPECT_NE(disk.error.find("/no/such/folder"), std::string::npos) << disk.error;
  EXPECT_EQ(disk.figures.read_bytes_per_s, 0);
}

}  // namespace
}  // namespace graft::perf
