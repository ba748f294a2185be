// Measures how fast a disk delivers weights: large blocks, several threads, without the page cache.

#pragma once

#include <filesystem>
#include <string>

#include "graft/perf/machine.h"

namespace graft::perf {

struct MeasuredDisk {
  DiskFigures figures;  // 0 on failure
  std::string error;    // empty: success
};

// Writes a temporary file of 1 GiB, or a quarter of the free space or memory if that is less, to
// `folder` and reads it. Takes a few seconds. `max_bytes` limits the file, for tests.
MeasuredDisk measure_disk(const std::filesystem::path& folder,
                          std::uint64_t max_bytes = std::uint64_t{1} << 30U);

}  // namespace graft::perf
