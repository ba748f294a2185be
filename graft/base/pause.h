// For loops that wait for another thread without sleeping.

#pragma once

#include <thread>

namespace graft {

// Leaves what the core has to its other thread for a moment.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace graft
