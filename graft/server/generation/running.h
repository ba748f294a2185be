// The generations of the server that run or wait, for those who save one.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/server/models/loaded_model.h"

namespace graft::server {

struct RunningGeneration {
  std::string id = {};    // of the HTTP request
  std::string path = {};  // likewise
  std::string model = {};
  std::weak_ptr<LoadedModel> loaded = {};
  std::vector<api::RequestId> requests = {};  // one per prompt
  std::int64_t num_samples = 1;               // of every prompt
  bool is_copied = false;                     // only sample 0 is computed, the others are copies
};

// Thread-safe.
class RunningGenerations {
 public:
  RunningGenerations() = default;
  RunningGenerations(const RunningGenerations&) = delete;
  RunningGenerations& operator=(const RunningGenerations&) = delete;
  ~RunningGenerations() = default;

  // The generation is listed until the handle is destroyed, which this object must outlive.
  std::shared_ptr<void> add(RunningGeneration generation);
  // In the order of their start.
  std::vector<RunningGeneration> list() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, RunningGeneration> generations_;
  std::uint64_t next_ = 0;
};

}  // namespace graft::server
