#include "bench/server/server.h"

#include <cstdlib>

#include "graft/base/error.h"
#include "graft/base/text/str.h"

namespace graft::bench {

void wait_until_ready(const tests::ServerProcess& server) {
  const bool is_ready =
      tests::eventually([&] { return tests::get(server, "/ready").status == 200; });
  if (!is_ready) fail("the server is not ready after a minute");
}

std::string quantized_model(const TempDir& folder, const std::string& type) {
  const std::string path = folder / ("sprout-" + type + ".gguf");
  const std::string command = str("'" GRAFT_PROGRAM "' quantize '", tests::bundled_model(), "' '",
                                  path, "' ", type, " >/dev/null 2>&1");
  if (std::system(command.c_str()) != 0) fail("failed: ", command);
  return path;
}

}  // namespace graft::bench
