#include "graft/cli/chat/clipboard.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace graft::cli {
namespace {

TEST(Clipboard, EncodesTheText) {
  EXPECT_EQ(clipboard_code(""), "\033]52;c;\a");
  EXPECT_EQ(clipboard_code("M"), "\033]52;c;TQ==\a");
  EXPECT_EQ(clipboard_code("Ma"), "\033]52;c;TWE=\a");
  EXPECT_EQ(clipboard_code("Man\xff"), "\033]52;c;TWFu/w==\a");
}

TEST(Clipboard, FindsTheLastCodeBlock) {
  EXPECT_EQ(last_code_block("no `code` block"), std::nullopt);
  EXPECT_EQ(last_code_block("a\n```py\nx = 1\n```\nb\n~~~\ny\n\nz\n~~~\nend"), "y\n\nz\n");
  EXPECT_EQ(last_code_block("```\ncut off"), "cut off\n");
}

}  // namespace
}  // namespace graft::cli
