// Memory, CPU time and open files of this process, under the names of Prometheus's own clients.

#pragma once

#include <string>

namespace graft::server {

// Reads /proc; a value that cannot be read is left out.
std::string process_metrics();

// The version and the compiler, as labels of one metric.
std::string build_metrics();

}  // namespace graft::server
