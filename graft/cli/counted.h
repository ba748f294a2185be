// "1 layer", "2 layers".

#pragma once

#include <cstdint>
#include <string>

#include "graft/base/text/str.h"

namespace graft::cli {

inline std::string counted(std::int64_t count, const char* noun) {
  return str(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace graft::cli
