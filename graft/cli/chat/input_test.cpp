#include "graft/cli/chat/input.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace graft::cli {
namespace {

TEST(ChatInput, PutsFilesInThePlaceOfTheirNames) {
  const std::string file =
      (std::filesystem::path(::testing::TempDir()) / "graft_input.txt").string();
  std::ofstream(file) << "two\nlines";
  EXPECT_EQ(with_files(file), "two\nlines");
  EXPECT_EQ(with_files("Sum up:  @" + file + " please"), "Sum up:  two\nlines please");
  EXPECT_EQ(with_files("mail me @home, see " + file), "mail me @home, see " + file);
  EXPECT_EQ(with_files("  spaces   stay "), "  spaces   stay ");
  EXPECT_EQ(with_files("@"), "@");
  EXPECT_EQ(with_files(std::string(10000, 'x')), std::string(10000, 'x'));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace graft::cli
