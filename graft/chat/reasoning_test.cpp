#include "graft/chat/reasoning.h"

#include <string>

#include <gtest/gtest.h>

#include "graft/testing/split_response.h"

namespace graft::chat {
namespace {

const testing::SplitCase kCases[] = {
    {"Hello.", "", "Hello."},
    {"<think>\n2 + 2 is 4.\n</think>\n\nFour.", "2 + 2 is 4.", "Four."},
    {"  <think>a</think>b", "a", "b"},
    {"<think>\n\n</think>\n\nNothing to think about.", "", "Nothing to think about."},
    {"a < b, and <think> is a tag", "", "a < b, and <think> is a tag"},
    {"<think>1 </thin 2 </th</think>3", "1 </thin 2 </th", "3"},
    {"still thinking\n</think>\nDone </think>", "still thinking", "Done </think>", true},
    {"<think>cut off \n", "cut off \n", ""},
    {"<thi", "", "<thi"},
    {"", "", ""},
    {" leading space", "", " leading space"},
};

TEST(ReasoningSplitter, IsIndependentOfChunking) {
  for (const testing::SplitCase& c : kCases)
    testing::expect_split(c);
}

TEST(ReasoningSplitter, StreamsReasoning) {
  ReasoningSplitter splitter;
  EXPECT_EQ(splitter.feed("<think>first words").reasoning, "first words");
  EXPECT_TRUE(splitter.is_thinking());
  EXPECT_EQ(splitter.feed(" more </thi").reasoning, " more");
  EXPECT_EQ(splitter.feed("nk>").reasoning, "");
  EXPECT_FALSE(splitter.is_thinking());
  EXPECT_EQ(splitter.feed("\nx").content, "x");
}

TEST(ReasoningSplitter, UsesTheTagsOfTheFamily) {
  constexpr formats::ReasoningTags kTags = {.open = "[THINK]", .close = "[/THINK]"};
  ReasoningSplitter splitter(false, kTags);
  ResponseDelta part = splitter.feed("[THINK]a <think>[/THI");
  EXPECT_EQ(part.reasoning, "a <think>");
  part = splitter.feed("NK] b");
  EXPECT_EQ(part.reasoning, "");
  EXPECT_EQ(part.content, "b");
  EXPECT_TRUE(ends_in_thinking("x[THINK]\n", kTags));
  EXPECT_FALSE(ends_in_thinking("x<think>\n", kTags));
}

TEST(ReasoningSplitter, DetectsAnOpenTagAtTheEndOfAPrompt) {
  EXPECT_TRUE(ends_in_thinking("<|assistant|>\n<think>\n"));
  EXPECT_FALSE(ends_in_thinking("<|assistant|>\n<think>\n\n</think>\n"));
  EXPECT_FALSE(ends_in_thinking(""));
}

}  // namespace
}  // namespace graft::chat
