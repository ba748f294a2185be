// The Error of a device or host whose memory is too small. Freeing memory and trying again can
// help: the server then unloads idle models.

#pragma once

#include "graft/base/error.h"

namespace graft {

class OutOfMemory : public Error {
 public:
  using Error::Error;
};

template <class... Parts>
[[noreturn]] void fail_out_of_memory(const Parts&... parts) {
  throw OutOfMemory(str(parts...));
}

}  // namespace graft
