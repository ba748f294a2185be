// GRAFT_CHECK states an invariant of our own code and aborts when it is false, in every build.
// GRAFT_DCHECK is the same for inner loops: it compiles to nothing when NDEBUG is set.

#pragma once

#include "graft/base/text/str.h"

namespace graft::detail {

[[noreturn]] void check_failed(const char* condition,
                               const char* file,
                               int line,
                               const std::string& message);

}  // namespace graft::detail

#define GRAFT_CHECK(condition, ...) \
  (static_cast<bool>(condition)     \
       ? static_cast<void>(0)       \
       : ::graft::detail::check_failed(#condition, __FILE__, __LINE__, ::graft::str(__VA_ARGS__)))

#ifdef NDEBUG
#define GRAFT_DCHECK(condition, ...) static_cast<void>(0)
#else
#define GRAFT_DCHECK(condition, ...) GRAFT_CHECK(condition, __VA_ARGS__)
#endif
