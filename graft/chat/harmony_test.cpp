#include "graft/chat/harmony.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "graft/chat/reasoning.h"

namespace graft::chat {
namespace {

struct HarmonyCase {
  std::string text;
  std::string reasoning;
  std::string content;
  bool open = false;
};

const HarmonyCase kHarmonyCases[] = {
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
  const formats::ReasoningTags tags = formats::kHarmonyReasoning;
  std::mt19937 random(1);
  for (const HarmonyCase& c : kHarmonyCases) {
    for (int round = 0; round < 50; ++round) {
      ReasoningSplitter splitter(c.open, tags);
      std::string reasoning;
      std::string content;
      for (std::size_t at = 0; at < c.text.size();) {
        const std::size_t count = round == 0 ? 1 : 1 + random() % 9;
        const ResponseDelta part = splitter.feed(std::string_view(c.text).substr(at, count));
        reasoning += part.reasoning;
        content += part.content;
        at += count;
      }
      const ResponseDelta rest = splitter.finish();
      EXPECT_EQ(reasoning + rest.reasoning, c.reasoning) << c.text;
      EXPECT_EQ(content + rest.content, c.content) << c.text;
    }
  }
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
