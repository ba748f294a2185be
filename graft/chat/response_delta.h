// Text of a response that is final, by kind.

#pragma once

#include <string>

namespace graft::chat {

struct ResponseDelta {
  std::string reasoning;
  std::string content;
};

}  // namespace graft::chat
