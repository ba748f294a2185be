// The exceptions of graft.

#pragma once

#include <stdexcept>

namespace graft {

// The user can fix it: a bad file, rule, parameter or request. what() names it, with the numbers.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A valid request failed while it ran (out of memory, a device error): changing it does not help.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace graft
