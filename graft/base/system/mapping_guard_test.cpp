#include "graft/base/system/mapping_guard.h"

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/mapped_file.h"
#include "graft/base/system/temp_dir.h"

namespace graft {
namespace {

constexpr std::size_t kGuardedBytes = 64U << 10U;

std::filesystem::path file_of_ones(const TempDir& folder, const char* name) {
  const std::filesystem::path path = folder / name;
  std::ofstream(path) << std::string(kGuardedBytes, '\1');
  return path;
}

// Reads through a volatile pointer: the compiler cannot reuse what it read before.
int byte_at(const MappedFile& file, std::size_t idx) {
  const volatile std::byte* bytes = file.bytes().data();
  return static_cast<int>(bytes[idx]);
}

TEST(MappingGuard, ATruncatedFileReadsAsZerosAndIsDamaged) {
  install_mapping_guard();
  const TempDir folder;
  const std::vector<std::filesystem::path> cut = {file_of_ones(folder, "cut")};
  const std::vector<std::filesystem::path> whole = {file_of_ones(folder, "whole")};
  {
    const MappedFile file(cut[0]);
    const MappedFile other(whole[0]);
    EXPECT_EQ(byte_at(file, kGuardedBytes - 1), 1);
    EXPECT_FALSE(damage_of(cut));
    std::filesystem::resize_file(cut[0], 4096);
    EXPECT_EQ(byte_at(file, kGuardedBytes - 1), 0);
    EXPECT_EQ(byte_at(file, 4096), 0) << "a page before the first missing one";
    EXPECT_EQ(byte_at(file, 4095), 1) << "what is left of the file";
    EXPECT_EQ(byte_at(other, kGuardedBytes - 1), 1);
    EXPECT_EQ(damage_of(cut),
              cut[0].string() + ": was truncated while in use (4096 bytes, had 65536)");
    EXPECT_FALSE(damage_of(whole));
  }
  const MappedFile again(cut[0]);
  EXPECT_EQ(byte_at(again, 4095), 1);
  EXPECT_FALSE(damage_of(cut)) << "a new mapping of the shorter file";
}

TEST(MappingGuard, AMovedFileStaysGuarded) {
  install_mapping_guard();
  const TempDir folder;
  const std::vector<std::filesystem::path> paths = {file_of_ones(folder, "moved")};
  MappedFile first(paths[0]);
  const MappedFile second(std::move(first));
  std::filesystem::resize_file(paths[0], 1);
  EXPECT_EQ(byte_at(second, 8192), 0);
  EXPECT_TRUE(damage_of(paths));
}

TEST(MappingGuardDeathTest, OtherBusErrorsEndTheProcess) {
  install_mapping_guard();
  EXPECT_DEATH(std::raise(SIGBUS), "");
}

}  // namespace
}  // namespace graft
