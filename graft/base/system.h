// Facts about the machine this process runs on.

#pragma once

#include <cstdint>

namespace graft {

// Bytes of main memory that can be taken without pushing out what runs; 0 when the system does not
// say.
std::uint64_t available_memory();

}  // namespace graft
