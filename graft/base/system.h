// Facts about the machine this process runs on.

#pragma once

#include <cstdint>

namespace graft {

// Bytes of main memory that can be taken without pushing out what runs, or as many as this
// process's control group (a container's limit) still allows; 0 when the system does not say.
std::uint64_t available_memory();

}  // namespace graft
