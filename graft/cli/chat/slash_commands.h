// The commands of a chat: /help, /reset, …

#pragma once

#include <string>

#include "graft/cli/chat/session.h"

namespace graft::cli {

struct ChatState {
  Session* session = nullptr;
  bool show_stats = false;  // after every answer
  bool is_over = false;
};

// Runs a command line, "/set temperature=0.5", and prints its result. Throws Error and changes
// nothing when it is invalid.
void run_slash_command(const std::string& line, ChatState& state);

}  // namespace graft::cli
