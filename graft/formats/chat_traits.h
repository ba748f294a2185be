// How a model family writes prompts, reasoning and tool calls. These are the defaults where the
// chat template of the model does not decide.

#pragma once

#include <cstdint>
#include <string_view>

namespace graft::formats {

// How a model writes a tool call in its output (chat/tool_format.h).
enum class ToolCallFormat : std::uint8_t {
  Any,  // all formats are recognized
  // <tool_call>{"name": "f", "arguments": {…}}</tool_call>, also Qwen. Qwen3-Coder and Qwen3.5
  // write <function=f><parameter=p>…</parameter></function> inside, GLM
  // f<arg_key>p</arg_key><arg_value>…</arg_value>.
  Hermes,
  DeepSeek,  // <｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>
  MiniMax,   // <invoke name="f"><parameter name="p">…</parameter></invoke>
  Kimi,      // <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>
  Dsml,  // <｜DSML｜invoke name="f"><｜DSML｜parameter name="p" string="true">…; DeepSeek-V3.2, V4
  Mistral,  // [TOOL_CALLS][{"name": "f", "arguments": {…}}] or [TOOL_CALLS]f[ARGS]{…}
  Llama,  // [f(p="…")] or {"name": "f", "parameters": {…}} as the whole response; Llama 3 and 4
  Harmony,  // <|channel|>commentary to=functions.f<|message|>{…}<|call|>
};

// The tags around the reasoning at the beginning of a response.
struct ReasoningTags {
  std::string_view open = "<think>";
  std::string_view close = "</think>";
  // The whole response is a list of messages in channels (chat/harmony.h), whose markers are
  // special tokens.
  bool is_harmony = false;

  bool operator==(const ReasoningTags&) const = default;
};

// GPT-OSS.
inline constexpr ReasoningTags kHarmonyReasoning = {
    .open = "<|channel|>analysis<|message|>", .close = "<|end|>", .is_harmony = true};

// Text that every prompt begins with.
struct PromptPrefix {
  std::string_view text;   // "[gMASK]<sop>"; empty: none
  std::string_view token;  // a token of it; a template that contains it writes the text itself
};

// The built-in template of models whose vocabulary has a token.
struct MarkedTemplate {
  std::string_view token;  // empty: none
  std::string_view builtin_template;
};

struct ChatTraits {
  std::string_view builtin_template = {};  // for checkpoints without a template; empty: ChatML
  MarkedTemplate marked_template = {};     // instead of it
  ToolCallFormat tool_calls = ToolCallFormat::Any;
  ReasoningTags reasoning = {};
  PromptPrefix prefix = {};
};

}  // namespace graft::formats
