#include "graft/server/openai/responses/store.h"

#include <algorithm>
#include <iterator>

namespace graft::server::openai::responses {

std::size_t StoredResponse::num_bytes() const {
  constexpr std::size_t kNodeBytes = 256;  // of lists and maps, about
  std::size_t bytes = kNodeBytes + text.size();
  for (const StoredItem& item : items)
    bytes += kNodeBytes + item.id.size() + item.text->size();
  return bytes;
}

void ResponseStore::add(std::uint64_t client, StoredResponse response) {
  const std::size_t bytes = response.num_bytes();
  if (bytes > limits_.max_bytes) return;  // would drop all others, then itself
  const auto stored = std::make_shared<const StoredResponse>(std::move(response));
  const std::lock_guard lock(mutex_);
  Client& owner = clients_[client];
  owner.responses.push_front(stored);
  owner.num_bytes += bytes;
  num_bytes_ += bytes;
  index_[{client, stored->id}] = owner.responses.begin();
  for (const StoredItem& item : stored->items)
    items_[{client, item.id}] = item.text;
  shrink();
}

ResponseStore::Ptr ResponseStore::find(std::uint64_t client, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find({client, id});
  if (found == index_.end()) return nullptr;
  std::list<Ptr>& list = clients_[client].responses;
  list.splice(list.begin(), list, found->second);
  return *found->second;
}

std::shared_ptr<const std::string> ResponseStore::find_item(std::uint64_t client,
                                                            const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find({client, id});
  return found == items_.end() ? nullptr : found->second;
}

bool ResponseStore::remove(std::uint64_t client, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find({client, id});
  if (found == index_.end()) return false;
  erase(client, found->second);
  return true;
}

// Items that a later response shares can no longer be referred to alone; the response keeps them.
void ResponseStore::erase(std::uint64_t client, std::list<Ptr>::iterator found) {
  const Ptr response = *found;
  const std::size_t bytes = response->num_bytes();
  index_.erase({client, response->id});
  for (const StoredItem& item : response->items)
    items_.erase({client, item.id});
  Client& owner = clients_[client];
  owner.responses.erase(found);
  owner.num_bytes -= bytes;
  num_bytes_ -= bytes;
  if (owner.responses.empty()) clients_.erase(client);
}

void ResponseStore::shrink() {
  while (num_bytes_ > limits_.max_bytes || index_.size() > limits_.max_responses) {
    const auto largest = std::ranges::max_element(
        clients_, {}, [](const auto& entry) { return entry.second.num_bytes; });
    erase(largest->first, std::prev(largest->second.responses.end()));
  }
}

std::size_t ResponseStore::num_bytes() const {
  const std::lock_guard lock(mutex_);
  return num_bytes_;
}

std::size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return index_.size();
}

}  // namespace graft::server::openai::responses
