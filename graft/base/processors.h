// The processors of this machine, by the numbers the operating system gives them.

#pragma once

#include <string_view>
#include <vector>

namespace graft {

// Those this process may run on, ascending; never empty.
std::vector<int> usable_processors();

// The same, of each core one: two threads of a core share its arithmetic and its caches.
std::vector<int> usable_cores();

// "0-3,8,10-11" as the operating system writes lists. Throws Error for anything else, for a number
// that comes twice, and for processors this process may not run on.
std::vector<int> parse_processors(std::string_view list);

// The calling thread runs on this processor alone from now on. What the system refuses is ignored:
// it costs speed at most.
void pin_this_thread(int processor);

}  // namespace graft
