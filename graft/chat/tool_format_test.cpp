#include "graft/chat/tool_format.h"

#include <gtest/gtest.h>

namespace graft::chat {
namespace {

using formats::ToolCallFormat;

TEST(ToolFormat, IsDetectedFromTheTemplate) {
  for (const ToolCallFormat family : {ToolCallFormat::Any, ToolCallFormat::DeepSeek}) {
    EXPECT_EQ(tool_call_format("{{ '<tool_call>' }}", family), ToolCallFormat::Hermes);
    EXPECT_EQ(tool_call_format("{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' }}", family),
              ToolCallFormat::DeepSeek);
    EXPECT_EQ(tool_call_format("<tool_call><｜tool▁call▁begin｜>", family), ToolCallFormat::Any);
    EXPECT_EQ(tool_call_format("{{ '<minimax:tool_call><invoke name=\"' + f }}", family),
              ToolCallFormat::MiniMax);
    EXPECT_EQ(tool_call_format("<|tool_call_begin|>{{ id }}", family), ToolCallFormat::Kimi);
    EXPECT_EQ(tool_call_format("{{ '<｜DSML｜invoke name=' + f }}", family), ToolCallFormat::Dsml);
    EXPECT_EQ(tool_call_format("{{ '<|python_start|>' }}", family), ToolCallFormat::Llama);
    EXPECT_EQ(tool_call_format("{{ '<|python_tag|>' }}", family), ToolCallFormat::Llama);
    EXPECT_EQ(tool_call_format("<|python_start|><|python_tag|>", family), ToolCallFormat::Llama);
    EXPECT_EQ(tool_call_format("{{ '[TOOL_CALLS]' + name }}", family), ToolCallFormat::Mistral);
    EXPECT_EQ(tool_call_format("{{ tools }}", family), family);
  }
}

}  // namespace
}  // namespace graft::chat
