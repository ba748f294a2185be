#include "graft/cli/terminal.h"

#include <gtest/gtest.h>

namespace graft::cli {
namespace {

TEST(TerminalText, ControlCharactersAreReplaced) {
  EXPECT_EQ(terminal_safe("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(terminal_safe("\033]0;title\007"), "?]0;title?");
  EXPECT_EQ(terminal_safe("x\r\b\x7f"), "x???");
  EXPECT_EQ(terminal_safe("\u009b31m"), "?31m");
  EXPECT_EQ(terminal_safe("Grüße, 你好 \u00a0"), "Grüße, 你好 \u00a0");
}

TEST(Terminal, LongLinesOfHelpAreWrappedBelowTheirText) {
  EXPECT_EQ(wrapped("  --flag  one two three four\nshort\n", 22),
            "  --flag  one two\n          three four\nshort\n");
  EXPECT_EQ(wrapped("a line of several words\n", 12), "a line of\nseveral\nwords\n");
  EXPECT_EQ(wrapped("averylongwordwithoutblanks\n", 8), "averylongwordwithoutblanks\n");
}

}  // namespace
}  // namespace graft::cli
