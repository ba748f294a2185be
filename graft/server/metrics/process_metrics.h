// Memory, CPU time and open files of this process, under the names of Prometheus's own clients.

#pragma once

#include <cstdint>
#include <string>

namespace graft::server {

// Reads /proc; a value that cannot be read is left out.
std::string process_metrics();

// Resident memory, mapped files included; 0 when it cannot be read.
std::uint64_t resident_bytes();

// The version and the compiler, as labels of one metric.
std::string build_metrics();

}  // namespace graft::server
