// The adapters that requests may name. A slot is the index of Model::set_adapter(); it is used
// again when the last request that holds it has ended.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graft/llm.h"
#include "graft/models/lora/adapter.h"
#include "graft/models/open_model.h"
#include "graft/ops/lora.h"

namespace graft::engine {

// Held by every request and sequence that uses the adapter.
struct LoadedAdapter {
  std::int32_t index = -1;
  AdapterInfo info;
};
using AdapterRef = std::shared_ptr<const LoadedAdapter>;

// The salt of BlockTable for a request with the adapter: blocks are shared only between requests
// with equal matrices and scales, under any name.
std::uint64_t salt_with(std::uint64_t cache_salt, const AdapterRef& adapter);

// Sequence::client of a request: slots and prompt tokens are shared equally between clients, and
// between the adapters of a client, so that many requests of one adapter do not delay another's.
std::uint64_t share_of(std::uint64_t client, const AdapterRef& adapter);

class Adapters {
 public:
  // With the adapters that the model was opened with.
  explicit Adapters(models::OpenModel& open);

  // Thread-safe. Null: no adapter has the name.
  AdapterRef find(const std::string& name) const;
  AdapterRef find(std::uint64_t identity) const;
  std::vector<AdapterInfo> list() const;  // in order of loading
  // Thread-safe. New requests do not find it any more. False: no adapter has the name.
  bool remove(const std::string& name);

  // The rest is for the engine's thread, while no pass is unfinished. Throws Error when the name is
  // taken or all slots are in use.
  void add(const models::Adapter& adapter);
  bool has_unused() const;  // of any thread; whether free_unused() has something to do
  void free_unused();       // the memory of removed adapters that no request holds

 private:
  struct Slot {
    std::weak_ptr<const LoadedAdapter> users;
    bool is_set = false;
  };

  models::Model& model_;
  mutable std::mutex mutex_;
  std::vector<AdapterRef> loaded_;
  std::array<Slot, ops::kMaxAdapters> slots_;
};

}  // namespace graft::engine
