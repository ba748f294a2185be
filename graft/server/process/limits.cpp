#include "graft/server/process/limits.h"

#include <sys/resource.h>

#include "graft/base/error.h"

namespace graft::server {
namespace {

// Files of models, libraries, GPUs, logs and threads, measured below 60, with room for more models.
constexpr rlim_t kOtherFiles = 128;
constexpr rlim_t kMinConnections = 16;

}  // namespace

std::size_t check_file_limit(std::size_t max_connections,
                             const std::function<void(const std::string& text)>& warn) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return max_connections;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= kOtherFiles + max_connections)
    return max_connections;
  if (limit.rlim_max < kOtherFiles + kMinConnections) {
    fail("open files: the limit is ", limit.rlim_max, ", the server needs at least ",
         kOtherFiles + kMinConnections, "; raise it with ulimit -n or LimitNOFILE=");
  }
  const std::size_t num_connections = limit.rlim_max - kOtherFiles;
  warn(str("open files: the limit is ", limit.rlim_max, ", so max ", num_connections,
           " connections are open at once instead of ", max_connections,
           "; raise it with ulimit -n or LimitNOFILE=, or lower --max-connections"));
  return num_connections;
}

void check_core_limit(const std::function<void(const std::string& text)>& warn) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur == 0) return;
  const std::string size =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : str(limit.rlim_cur, " bytes");
  warn(str(
      "core dumps: the limit is ", size,
      ", a crash writes weights, prompts and API keys to disk; disable them with ulimit -c 0 or "
      "LimitCORE=0"));
}

}  // namespace graft::server
