// Servers of the benchmarks: `graft serve` of this build on a free port of 127.0.0.1.

#pragma once

#include <string>

#include "graft/base/system/temp_dir.h"

#include "tests/server/server_process.h"

namespace graft::bench {

// Throws Error when /ready is not 200 within a minute.
void wait_until_ready(const tests::ServerProcess& server);

// Writes the bundled model with another type to `folder`; returns the path.
std::string quantized_model(const TempDir& folder, const std::string& type);

}  // namespace graft::bench
