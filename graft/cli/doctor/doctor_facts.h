// The facts that `graft doctor` collects; doctor_checks.h evaluates them.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/cli/doctor/host_facts.h"

namespace graft::cli {

struct CpuFacts {
  std::string name = {};
  std::vector<std::pair<std::string, bool>> features = {};
  std::string isa = {};             // of the kernels in use; empty: isa_error is set
  std::string isa_error = {};       // why no kernels can be used
  std::string forced_isa = {};      // GRAFT_CPU_ISA; empty: not set
  std::string best_isa = {};        // the best that the CPU supports
  std::string next_isa = {};        // the first level it does not support; empty: none
  std::string next_isa_needs = {};  // the missing CPU feature
  int num_cores = 1;                // usable by this process
  int num_logical_cpus = 1;         // usable by this process
  int num_in_machine = 1;           // logical CPUs
  int num_numa_nodes = 1;
  double limit = 0;  // CPU quota of the container; 0: none
  double load = 0;   // 1-minute load average
};

struct MemoryFacts {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::uint64_t limit_bytes = 0;  // of the container; 0: none
  std::string huge_pages = {};    // "always", "madvise", "never"; empty: unknown
  double read_bytes_per_s = 0;    // measured now; 0: not measured
};

// The measurements saved by `graft machine`.
struct SavedFacts {
  std::string path = {};
  bool exists = false;
  std::string error = {};  // empty: readable
  bool older_than_program = false;
  int threads = 0;
  double read_bytes_per_s = 0;
};

struct GpuFacts {
  std::vector<std::string> gpus = {};  // "NVIDIA H200, 139.0 GiB of 140.4 GiB free"
  std::string unavailable = {};        // why `gpus` is empty
  bool built_with_cuda = false;
  int num_devices = 0;           // NVIDIA display devices on the PCI bus
  std::string driver = {};       // version of the loaded driver; empty: none
  int driver_cuda = 0;           // newest CUDA version of libcuda.so.1 (13020: 13.2); 0: no library
  int toolkit_cuda = 0;          // CUDA version that graft was built with; 0: without
  bool has_device_file = false;  // /dev/nvidiactl, which a container gets from its runtime
};

// A folder installed with the program.
struct ResourceFacts {
  std::string path = {};
  std::size_t count = 0;
  std::string error = {};  // empty: found
};

struct Facts {
  CpuFacts cpu;
  MemoryFacts memory;
  SavedFacts saved;
  GpuFacts gpus;
  ResourceFacts rules;  // rule files
  ResourceFacts model;  // the bundled model
  HostFacts host;
};

// Measures the read bandwidth, which takes less than a second.
Facts gather_facts();

Json to_json(const Facts& facts);

}  // namespace graft::cli
