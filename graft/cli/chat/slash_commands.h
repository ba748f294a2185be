// The commands of a chat: /help, /reset, …

#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "graft/base/text/json.h"
#include "graft/cli/chat/session.h"

namespace graft::cli {

struct ChatState {
  Session* session = nullptr;
  // Loads another model; throws Error and keeps the model when it cannot.
  std::function<void(const std::string& name)> switch_model;
  bool has_markdown = true;
  bool show_stats = false;  // after every answer
  bool is_over = false;
};

// Prints the answer to `text`, or with `is_retry` another answer to the last message.
void print_answer(const std::string& text, bool is_retry, ChatState& state);

// Puts the image of a file before the next message, and says so. Throws Error.
void attach_image(const std::filesystem::path& path, ChatState& state);

// A call of a tool: its name and arguments.
std::string call_text(const OrderedJson& call);

// Names without "/", in the order of /help.
std::span<const std::string_view> slash_command_names();

// Runs a command line, "/set temperature=0.5", and prints its result. Throws Error and changes
// nothing when it is invalid.
void run_slash_command(const std::string& line, ChatState& state);

}  // namespace graft::cli
