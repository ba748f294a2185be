// Sends mutated requests to a server from many threads and checks every response.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace graft::tests {

struct MutatedLoad {
  std::map<int, int> statuses = {};  // responses by status; 0: closed without one
  std::vector<std::string> problems = {};

  int count(int status) const;
  // The counts by status, for the log.
  std::string text() const;
};

// Sends `count` mutations of the valid requests of `path`. A response that takes long is not waited
// for: the connection is reset. `api_key`: empty for none.
MutatedLoad send_mutated(std::uint16_t port,
                         const std::string& path,
                         int count,
                         const std::string& api_key = {});

}  // namespace graft::tests
