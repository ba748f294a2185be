#include "graft/server/models/model_slots.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"

namespace graft::server {

struct ModelSlots::State {
  std::mutex mutex;
  std::int64_t num_reserved = 0;
  std::unordered_map<std::uint64_t, std::int64_t> reserved_by_client;  // none is 0

  std::int64_t share_of(std::uint64_t client, std::int64_t max_slots) const {
    const auto num_clients = static_cast<std::int64_t>(reserved_by_client.size()) +
                             (reserved_by_client.contains(client) ? 0 : 1);
    return max_slots / std::max(num_clients, kMinClients);
  }

  std::int64_t reserved_by(std::uint64_t client) const {
    const auto it = reserved_by_client.find(client);
    return it == reserved_by_client.end() ? 0 : it->second;
  }

  void release(std::uint64_t client, std::int64_t num_sequences) {
    const std::lock_guard lock(mutex);
    num_reserved -= num_sequences;
    const auto it = reserved_by_client.find(client);
    it->second -= num_sequences;
    if (it->second == 0) reserved_by_client.erase(it);
  }
};

ModelSlots::ModelSlots() : state_(std::make_shared<State>()) {}

std::shared_ptr<void> ModelSlots::reserve(std::uint64_t client,
                                          std::int64_t num_sequences,
                                          std::int64_t max_slots) {
  const std::lock_guard lock(state_->mutex);
  const std::int64_t now = state_->num_reserved;
  const bool is_full = now > 0 && now + num_sequences > max_slots;
  if (is_full &&
      state_->reserved_by(client) + num_sequences > state_->share_of(client, max_slots)) {
    throw busy_error(
        str("too many requests: ", now, " sequences are running or queued, max ", max_slots), 1);
  }
  std::shared_ptr<void> handle(nullptr, [state = state_, client, num_sequences](void*) {
    state->release(client, num_sequences);
  });
  state_->num_reserved += num_sequences;
  state_->reserved_by_client[client] += num_sequences;
  return handle;
}

}  // namespace graft::server
