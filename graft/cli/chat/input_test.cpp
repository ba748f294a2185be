#include "graft/cli/chat/input.h"

#include <fstream>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"

namespace graft::cli {
namespace {

TEST(ChatInput, ExpandsFileNames) {
  const TempDir folder;
  const std::string file = folder / "input.txt";
  std::ofstream(file) << "two\nlines";
  EXPECT_EQ(expand_files(file), "two\nlines");
  EXPECT_EQ(expand_files("Sum up:  @" + file + " please"), "Sum up:  two\nlines please");
  EXPECT_EQ(expand_files("mail me @home, see " + file), "mail me @home, see " + file);
  EXPECT_EQ(expand_files("  spaces   stay "), "  spaces   stay ");
  EXPECT_EQ(expand_files("@"), "@");
  EXPECT_EQ(expand_files(std::string(10000, 'x')), std::string(10000, 'x'));
}

}  // namespace
}  // namespace graft::cli
