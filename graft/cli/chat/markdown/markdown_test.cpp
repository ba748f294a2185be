#include "graft/cli/chat/markdown/markdown.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace graft::cli {
namespace {

// Renders the pieces; style codes are shown as {code}.
std::string rendered(const std::vector<std::string_view>& pieces, int columns = 40) {
  std::string out;
  WrapWriter writer([&](std::string_view text) { out += text; }, [=] { return columns; });
  MarkdownRenderer renderer(writer);
  for (const std::string_view piece : pieces)
    renderer.feed(piece);
  renderer.finish();
  std::string shown;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] != '\033') {
      shown += out[i];
      continue;
    }
    const std::size_t end = out.find('m', i);
    shown += "{" + out.substr(i + 2, end - i - 2) + "}";
    i = end;
  }
  return shown;
}

struct Example {
  std::string_view markdown;
  std::string_view terminal;
};

const std::vector<Example> kExamples = {
    {"plain text", "plain text\n"},
    {"one\ntwo\n\nthree\n", "one\ntwo\n\nthree\n"},
    {"# Title", "{0;1;4;36}Title{0}\n"},
    {"### Low\nx", "{0;1}Low{0}\nx\n"},
    {"#hashtag and ####### seven", "#hashtag and ####### seven\n"},
    {"a **bold** b", "a {0;1}bold {0}b\n"},
    {"*it* and __b__ and ***both***.", "{0;3}it {0}and {0;1}b {0}and {0;1;3}both{0}.\n"},
    {"**b *i* b**", "{0;1}b {0;1;3}i {0;1}b{0}\n"},
    {"5*3 is 15, 2 * 3 * 4, snake_case_name", "5*3 is 15, 2 * 3 * 4, snake_case_name\n"},
    {"an **unclosed marker", "an **unclosed marker\n"},
    {"~~old~~ new", "{0;9}old{0} new\n"},
    {"use `a*b*c` here", "use {0;33}a*b*c {0}here\n"},
    {"`` a`b ``", "{0;33}a`b{0}\n"},
    {"`open", "`open\n"},
    {"\\*not\\* it", "*not* it\n"},
    {"see [docs](http://x.y/z) now", "see {0;4}docs{0} {0;2}(http://x.y/z) {0}now\n"},
    {"![cat](c.png) [1] [x](", "{0;4}cat{0} {0;2}(c.png) {0}[1] [x](\n"},
    {"- one\n- two", "{0;2}• {0}one\n{0;2}• {0}two\n"},
    {"  * in\n2. two\n10) x", "{0;2}  • {0}in\n{0;2}2. {0}two\n{0;2}10) {0}x\n"},
    {"- [ ] open\n- [x] done", "{0;2}☐ {0}open\n{0;2}☑ {0}done\n"},
    {"3.14 is pi\n1984 was", "3.14 is pi\n1984 was\n"},
    {"> quoted\n> > deep", "{0;2}│ {0}quoted\n{0;2}│ │ {0}deep\n"},
    {"---\n* * *",
     "{0;2}────────────────────────────────────────{0}\n"
     "{0;2}────────────────────────────────────────{0}\n"},
    {"-5 degrees", "-5 degrees\n"},
    {"```\na **b**\n```\n**c**", "{0;2}```{0}\na **b**\n{0;2}```{0}\n{0;1}c{0}\n"},
    {"```cpp\nint x = 42; // y\n```",
     "{0;2}```cpp{0}\n{0;35}int{0} x = {0;36}42{0}; {0;90}// y{0}\n"
     "{0;2}```{0}\n"},
    {"~~~py\n\"\"\"a\nb\"\"\" if\n~~~",
     "{0;2}~~~py{0}\n{0;32}\"\"\"a{0}\n{0;32}b\"\"\"{0} {0;35}if{0}\n"
     "{0;2}~~~{0}\n"},
    {"```c\n/* a\n b */ 'x' \"s\\\"\"\n",
     "{0;2}```c{0}\n{0;90}/* a{0}\n{0;90} b */{0} {0;32}'x'{0} "
     "{0;32}\"s\\\"\"{0}\n"},
    {"```diff\n+new\n-old\n same\n```",
     "{0;2}```diff{0}\n{0;32}+new{0}\n{0;31}-old{0}\n same\n"
     "{0;2}```{0}\n"},
    {"```sh\n  ``\n```", "{0;2}```sh{0}\n  ``\n{0;2}```{0}\n"},
    {"| a | **b** |\n|---|---|\n| 1 | two |\n\nend",
     "{0;1}a{0;2} │ {0;1}b{0}\n{0;2}──┼────{0}\n1{0;2} │ {0}two\n\nend\n"},
    {"| just a bar\nnext", "| just a bar\nnext\n"},
    {"a long line of text that is wrapped between its words",
     "a long line of text that is wrapped\nbetween its words\n"},
    {"- a long item of a list that is wrapped with an indent",
     "{0;2}• {0}a long item of a list that is wrapped\n{0;2}  {0}with an indent\n"},
    {"你好你好你好你好你好你好你好你好你好你好你好",
     "你好你好你好你好你好你好你好你好你好你好\n你好\n"},
    {"0123456789012345678901234567890123456789012345",
     "0123456789012345678901234567890123456789\n"
     "012345\n"},
    {"bell\x07 esc\x1b[31m c1\xc2\x9b bad\xff end\r\n", "bell? esc?[31m c1? bad\uFFFD end\n"},
    {"x\xe4\xbd", "x\uFFFD\uFFFD\n"},
};

TEST(Markdown, RendersOnATerminal) {
  for (const auto& [markdown, terminal] : kExamples)
    EXPECT_EQ(rendered({markdown}), terminal) << markdown;
}

TEST(Markdown, DoesNotDependOnPieces) {
  for (const auto& [markdown, terminal] : kExamples) {
    std::vector<std::string_view> bytes;
    for (std::size_t i = 0; i <= markdown.size(); ++i) {
      EXPECT_EQ(rendered({markdown.substr(0, i), markdown.substr(i)}), terminal)
          << markdown.substr(0, i) << " + " << markdown.substr(i);
      if (i < markdown.size()) bytes.push_back(markdown.substr(i, 1));
    }
    EXPECT_EQ(rendered(bytes), terminal) << markdown;
  }
}

TEST(Markdown, ShowsWordsBeforeTheLineEnds) {
  std::string out;
  WrapWriter writer([&](std::string_view text) { out += text; }, [] { return 40; });
  MarkdownRenderer renderer(writer);
  renderer.feed("Hello wor");
  EXPECT_EQ(out, "Hello");
  renderer.feed("ld, **now");
  EXPECT_EQ(out, "Hello world,");
  renderer.feed("** or");
  EXPECT_EQ(out, "Hello world, \033[0;1mnow");
}

TEST(Markdown, WideTablesAreRecords) {
  EXPECT_EQ(rendered({"|name|meaning|\n|-|-|\n|a|some text that is long|\n|b|short|\n"}, 20),
            "{0;1}name: {0}a\n{0;1}meaning: {0}some text\n  that is long\n\n"
            "{0;1}name: {0}b\n{0;1}meaning: {0}short\n");
}

// Linear in the length of a line full of markers.
TEST(Markdown, LongLinesOfMarkersEnd) {
  std::string line;
  for (int i = 0; i < 20000; ++i)
    line += " *a [b `c";
  EXPECT_GT(rendered({line}).size(), line.size());
}

}  // namespace
}  // namespace graft::cli
