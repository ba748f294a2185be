#include "graft/cli/chat/input.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/cli/chat/dropped_images.h"

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

TEST(ChatInput, TakesImagesThatWereDropped) {
  const TempDir folder;
  const std::string plain = folder / "photo.PNG";
  const std::string spaced = folder / "my photo.jpg";
  std::ofstream(plain) << "x";
  std::ofstream(spaced) << "x";
  std::ofstream(folder / "notes.txt") << "text";
  const auto escaped = [&](std::string path) { return path.replace(path.find(' '), 1, "\\ "); };
  const auto paths_of = [](const std::string& line) { return take_dropped_images(line).paths; };
  using Paths = std::vector<std::filesystem::path>;
  EXPECT_EQ(paths_of(plain), Paths{plain});
  EXPECT_EQ(take_dropped_images(plain).text, "");
  EXPECT_EQ(paths_of(spaced), Paths{spaced});  // the whole line
  EXPECT_EQ(paths_of("'" + spaced + "' "), Paths{spaced});
  EXPECT_EQ(paths_of("\"" + spaced + "\""), Paths{spaced});
  std::string url = spaced;
  url.replace(url.find(' '), 1, "%20");
  EXPECT_EQ(paths_of("file://" + url), Paths{spaced});
  const DroppedImages two =
      take_dropped_images("It's  " + escaped(spaced) + " and @" + plain + " please");
  EXPECT_EQ(two.paths, (Paths{spaced, plain}));
  EXPECT_EQ(two.text, "It's  and please");
  const std::string text_file = folder / "notes.txt";
  const std::string missing = folder / "missing.png";
  for (const std::string& line :
       std::vector<std::string>{"it's /help", "/image a.png", text_file, "what is photo.png?",
                                missing, "it's  two  blanks"}) {
    EXPECT_TRUE(paths_of(line).empty()) << line;
    EXPECT_EQ(take_dropped_images(line).text, line);
  }
}

TEST(ChatInput, ReadsPathsAsTerminalsTypeThem) {
  EXPECT_EQ(typed_path("/a/b.png"), "/a/b.png");
  EXPECT_EQ(typed_path(R"(/a/my\ photo\(1\).png)"), "/a/my photo(1).png");
  EXPECT_EQ(typed_path("'/a/my photo.png'"), "/a/my photo.png");
  EXPECT_EQ(typed_path(R"('/a/it'\''s.png')"), "/a/it's.png");
  EXPECT_EQ(typed_path("file:///a/%C3%A4%20b%zz.png"), "/a/\xc3\xa4 b%zz.png");
  EXPECT_EQ(typed_path("it's"), "it's");
}

}  // namespace
}  // namespace graft::cli
