// The pause instruction for spin loops.

#pragma once

#include <thread>

namespace graft {

// Leaves the core's execution units to its sibling hyperthread for a moment.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // a short delay; "yield" does nothing on most cores
#else
  std::this_thread::yield();
#endif
}

}  // namespace graft
