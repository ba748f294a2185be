// Facts of the operating system for `graft doctor`: C library, limits, disk space, container, GPU
// driver.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graft/base/text/json.h"

namespace graft::cli {

struct HostFacts {
  std::string libc = {};                           // version of the C library, "2.36"
  std::string built_libc = {};                     // of the one that graft was built with
  bool is_bundled = false;                         // the one of graft's archive
  std::optional<std::uint64_t> locked_bytes = {};  // limit of locked memory; empty: unlimited
  bool numa_balancing = false;                     // the kernel moves pages between NUMA nodes
  std::string download_folder = {};                // of `graft pull`; empty: unknown
  std::optional<std::uint64_t> free_bytes = {};    // of its file system; empty: unknown
  std::string container = {};                      // "docker", "podman", …; empty: none
};

HostFacts gather_host_facts();

Json to_json(const HostFacts& facts);

// The newest CUDA version of the installed driver, 1000 * major + 10 * minor; 0: no libcuda.so.1.
int driver_cuda_version();

}  // namespace graft::cli
