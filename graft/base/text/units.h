// Human-readable sizes, counts and durations.

#pragma once

#include <cstdint>
#include <string>

namespace graft {

std::string bytes_text(std::uint64_t bytes);  // "512 B", "3.2 KiB", "671.0 GiB"
std::string count_text(double count);         // "8192", "46.5 M", "671.0 B"
std::string duration_text(double seconds);    // "0.4 s", "12 s", "3:07", "1:02:45"

}  // namespace graft
