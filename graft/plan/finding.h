// Something wrong, or odd, in a rule file: collected, so that a user sees all of it at once.

#pragma once

#include <cstdint>
#include <string>

namespace graft::plan {

struct Finding {
  enum class Kind : std::uint8_t { Error, Warning };
  Kind kind = Kind::Error;
  std::string where;  // "rules.yaml:12"
  std::string text;
};

}  // namespace graft::plan
