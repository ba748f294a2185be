// What can be typed in a chat beside messages: /help, /reset, …

#pragma once

#include <string>

#include "graft/cli/chat/session.h"

namespace graft::cli {

struct ChatState {
  Session* session = nullptr;
  bool show_stats = false;  // after every answer
  bool is_over = false;
};

// Does what the line ("/set temperature=0.5") says and prints what there is to say. Throws Error;
// nothing has changed then.
void run_slash_command(const std::string& line, ChatState& state);

}  // namespace graft::cli
