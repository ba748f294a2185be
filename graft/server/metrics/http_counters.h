// Counts HTTP requests by path and status.

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace graft::server {

class HttpCounters {
 public:
  // `route`: Router::route_of(), so that clients cannot add paths.
  void count(const std::string& route, int status);
  std::string metrics_text() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> counts_;
};

}  // namespace graft::server
