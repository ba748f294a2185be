// Fuzzes chat templates: rendering with small limits either returns text or throws Error.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/chat/chat_template.h"

namespace {

namespace chat = graft::chat;

chat::RenderInput conversation() {
  chat::RenderInput input;
  input.messages = graft::parse_ordered_json(
      R"([{"role": "system", "content": "Be kind."},
          {"role": "user", "content": [{"type": "text", "text": "Grüße 👋"}]},
          {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
            {"id": "1", "function": {"name": "f", "arguments": {"a": [1, 2.5, null, true]}}}]},
          {"role": "tool", "content": "ok"}])",
      "messages");
  input.tools = graft::parse_ordered_json(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])",
      "tools");
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.extra = graft::parse_ordered_json(R"({"n": 3, "list": [3, 1, 2], "s": "text"})", "extra");
  input.now = std::chrono::system_clock::time_point(std::chrono::seconds(1721728799));
  return input;
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const chat::RenderInput input = conversation();
  const chat::RenderLimits limits = {.max_steps = 100'000,
                                     .max_output_bytes = std::size_t{1} << 20U,
                                     .max_memory_bytes = std::size_t{16} << 20U,
                                     .max_depth = 500};
  try {
    const chat::ChatTemplate parsed({reinterpret_cast<const char*>(data), size}, "fuzz");
    parsed.render(input, limits);
  } catch (const graft::Error&) {
    // A valid outcome.
  }
  return 0;
}
