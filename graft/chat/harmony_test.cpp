#include "graft/chat/harmony.h"

#include <string>

#include <gtest/gtest.h>

#include "graft/chat/reasoning.h"
#include "graft/testing/split_response.h"

namespace graft::chat {
namespace {

const testing::SplitCase kHarmonyCases[] = {
    {"<|channel|>analysis<|message|>2 + 2 is 4.<|end|><|start|>assistant<|channel|>final"
     "<|message|>Four.<|return|>",
     "2 + 2 is 4.", "Four."},
    {"<|channel|>final<|message|>Hello.", "", "Hello."},
    {"<|channel|>analysis<|message|>cut o", "cut o", ""},
    {"<|channel|>analysis<|message|>a < b <|en c<|end|>", "a < b <|en c", ""},
    // The prompt opened the message, or wrote its whole header.
    {"thought<|end|><|start|>assistant<|channel|>final<|message|>x", "thought", "x", true},
    {"plain text<|return|>", "", "plain text"},
    {"", "", ""},
    {"<|chan", "", "<|chan"},
    // Two messages of a kind.
    {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b"
     "<|end|><|start|>assistant<|channel|>commentary<|message|>c<|end|><|start|>assistant"
     "<|channel|>final<|message|>d<|return|>",
     "a\n\nb", "c\n\nd"},
    // Tool calls, with the recipient on either side of the channel.
    {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"x\": 1}<|call|>",
     "a", "<|channel|>commentary to=functions.f<|message|>{\"x\": 1}<|call|>"},
    {" to=functions.g<|channel|>commentary json<|message|>{}", "",
     "<|channel|>commentary to=functions.g<|message|>{}<|call|>"},
};

TEST(HarmonySplitter, IsIndependentOfChunking) {
  for (const testing::SplitCase& c : kHarmonyCases)
    testing::expect_split(c, formats::kHarmonyReasoning);
}

TEST(HarmonySplitter, StreamsReasoning) {
  ReasoningSplitter splitter(false, formats::kHarmonyReasoning);
  EXPECT_EQ(splitter.feed("<|channel|>analysis<|message|>first words").reasoning, "first words");
  EXPECT_TRUE(splitter.is_thinking());
  EXPECT_EQ(splitter.feed(" more<|e").reasoning, " more");
  splitter.feed("nd|>");
  EXPECT_FALSE(splitter.is_thinking());
}

}  // namespace
}  // namespace graft::chat
