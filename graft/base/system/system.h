// Facts about the machine this process runs on. What the system does not say is 0 or empty.

#pragma once

#include <cstdint>
#include <string>

namespace graft {

// Bytes of main memory that can be taken without pushing out what runs, or as many as a container
// still allows.
std::uint64_t available_memory();
std::uint64_t total_memory();

std::string processor_name();  // "Intel(R) Xeon(R) Processor @ 2.80GHz"

// How the system gives large pages to those who ask: "always", "madvise" or "never".
std::string large_page_setting();

// Programs that wanted to run, on average over the last minute.
double load_average();
// Of each processor; above it, what is measured here says little.
inline constexpr double kBusyLoad = 0.5;

}  // namespace graft
