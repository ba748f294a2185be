#include "graft/cli/options/tier_options.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

TEST(TierOptions, SetSizesAndFolder) {
  api::EngineConfig config;
  TierOptions().apply_to(config);
  EXPECT_EQ(config.kv_host_bytes, 0U);
  EXPECT_EQ(config.kv_disk_bytes, 0U);
  EXPECT_TRUE(config.kv_dir.empty());
  TierOptions{.host = "512M", .disk = "2G", .dir = "d"}.apply_to(config);
  EXPECT_EQ(config.kv_host_bytes, 512U << 20U);
  EXPECT_EQ(config.kv_disk_bytes, std::uint64_t{2} << 30U);
  EXPECT_EQ(config.kv_dir, "d");
}

TEST(TierOptions, RejectMissingUnits) {
  api::EngineConfig config;
  EXPECT_THROW(TierOptions{.host = "8"}.apply_to(config), Error);
  EXPECT_THROW(TierOptions{.disk = "many"}.apply_to(config), Error);
  // A size of 0 turns a setting off.
  TierOptions{.host = "0B", .disk = "0B"}.apply_to(config);
  EXPECT_EQ(config.kv_disk_bytes, 0U);
}

}  // namespace
}  // namespace graft::cli
