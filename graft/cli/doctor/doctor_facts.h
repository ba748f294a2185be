// What `graft doctor` looks at: facts as they are found, no judgement (doctor_checks.h).

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"

namespace graft::cli {

struct ProcessorFacts {
  std::string name = {};
  std::vector<std::pair<std::string, bool>> features = {};
  std::string isa = {};         // of the kernels in use; empty: none can be
  std::string isa_error = {};   // why
  std::string forced_isa = {};  // GRAFT_CPU_ISA; empty: not set
  std::string best_isa = {};    // that it can run
  std::string next_isa = {};    // the level above; empty: there is none
  std::string next_isa_needs = {};
  int num_cores = 1;       // that this process may use
  int num_processors = 1;  // the same with the second threads of cores
  int num_in_machine = 1;  // processors, whoever may use them
  int num_memory_nodes = 1;
  double limit = 0;  // processors' worth of time, of a container; 0: none
  double load = 0;   // of the last minute
};

struct MemoryFacts {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::uint64_t limit_bytes = 0;  // of a container; 0: none
  std::string large_pages = {};   // "always", "madvise", "never"; empty: unknown
  double read_bytes_per_s = 0;    // measured now; 0: not measured
};

// What `graft machine` left.
struct SavedFacts {
  std::string path = {};
  bool exists = false;
  std::string error = {};  // empty: it can be read
  bool older_than_program = false;
  int threads = 0;
  double read_bytes_per_s = 0;
};

struct GpuFacts {
  std::vector<std::string> gpus = {};  // "NVIDIA H200, 139.0 GiB of 140.4 GiB free"
  std::string unavailable = {};        // why there are none
  bool built_with_cuda = false;
  int num_devices = 0;      // of NVIDIA, on the bus
  std::string driver = {};  // its version; empty: none is loaded
};

// A folder that comes with the program.
struct ResourceFacts {
  std::string path = {};
  std::size_t count = 0;
  std::string error = {};  // empty: it is there
};

struct Facts {
  ProcessorFacts processor;
  MemoryFacts memory;
  SavedFacts saved;
  GpuFacts gpus;
  ResourceFacts rules;  // rule files
  ResourceFacts model;  // the bundled one
};

// Takes under a second, for the measurement.
Facts gather_facts();

Json to_json(const Facts& facts);

}  // namespace graft::cli
