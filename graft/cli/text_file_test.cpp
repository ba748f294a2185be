#include "graft/cli/text_file.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/testing/formats.h"

namespace graft::cli {
namespace {

TEST(TextFile, ReadsWhatWasWritten) {
  const TempDir folder;
  write_text_file(folder / "a.txt", "one\ntwo");
  EXPECT_EQ(read_text_file(folder / "a.txt"), "one\ntwo");
  write_text_file(folder / "a.txt", "three");
  EXPECT_EQ(read_text_file(folder / "a.txt"), "three");
}

TEST(TextFile, ANewFileIsCheckedWithoutWritingIt) {
  const TempDir folder;
  check_new_file(folder / "a.txt");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.txt"));
  write_text_file(folder / "a.txt", "kept");
  check_new_file(folder / "a.txt");
  EXPECT_EQ(read_text_file(folder / "a.txt"), "kept");
  check_new_file("/dev/null");
  EXPECT_NE(
      formats::test::error_of([&] { check_new_file(folder / "no/a.txt"); }).find("does not exist"),
      std::string::npos);
}

TEST(TextFile, ErrorsNameTheCause) {
  const TempDir folder;
  const auto write_error = [](const std::filesystem::path& path) {
    return formats::test::error_of([&] { write_text_file(path, "text"); });
  };
  const auto read_error = [](const std::filesystem::path& path) {
    return formats::test::error_of([&] { read_text_file(path); });
  };
  EXPECT_NE(write_error(folder / "no/a.txt").find("does not exist"), std::string::npos)
      << write_error(folder / "no/a.txt");
  EXPECT_EQ(write_error("/dev/full"), "/dev/full: cannot write: No space left on device");
  EXPECT_NE(write_error(folder.path()), "");
  EXPECT_NE(read_error(folder / "absent").find("absent: No such file or directory"),
            std::string::npos);
  EXPECT_NE(read_error(folder.path()).find("is a folder"), std::string::npos);
}

}  // namespace
}  // namespace graft::cli
