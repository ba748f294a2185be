// Limits of the operating system that a server depends on, checked at start.

#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace graft::server {

// Raises the soft limit of open files to the hard limit, because every connection is a file
// descriptor. Returns the number of connections that fit, at most `max_connections`; calls `warn`
// when that is less. Throws Error when hardly any fit.
std::size_t check_file_limit(std::size_t max_connections,
                             const std::function<void(const std::string& text)>& warn);

// Warns when core dumps are enabled: they contain the weights, prompts and API keys.
void check_core_limit(const std::function<void(const std::string& text)>& warn);

}  // namespace graft::server
