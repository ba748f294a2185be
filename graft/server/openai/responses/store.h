// Finished responses for GET /v1/responses/{id} and previous_response_id, in memory. Texts of JSON,
// which take less memory than trees. A client sees only its own. Thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graft::server::openai::responses {

// Text of one item of a conversation; the responses of a conversation share them.
struct StoredItem {
  std::string id = {};
  std::shared_ptr<const std::string> text = {};
};

struct StoredResponse {
  std::string id = {};
  std::string text = {};  // the response
  // The whole conversation: of the previous responses, input, output.
  std::vector<StoredItem> items = {};
  std::size_t num_previous = 0;  // items of previous responses
  std::size_t num_input = 0;     // items of the request, after them

  // Counts shared items in full: the memory used is less.
  std::size_t num_bytes() const;
};

struct StoreLimits {
  std::size_t max_bytes = 64U << 20U;  // over all clients; 0: nothing is kept
  std::size_t max_responses = 16'384;
};

class ResponseStore {
 public:
  using Ptr = std::shared_ptr<const StoredResponse>;

  explicit ResponseStore(const StoreLimits& limits = {}) : limits_(limits) {}

  // While a limit is exceeded, the least recently used response of the client with the most bytes
  // is dropped.
  void add(std::uint64_t client, StoredResponse response);
  // Null when the client has no such response. Counts as a use.
  Ptr find(std::uint64_t client, const std::string& id);
  // An item of a response of the client.
  std::shared_ptr<const std::string> find_item(std::uint64_t client, const std::string& id) const;
  bool remove(std::uint64_t client, const std::string& id);

  std::size_t num_bytes() const;
  std::size_t size() const;

 private:
  using Key = std::pair<std::uint64_t, std::string>;  // client and id
  struct Client {
    std::list<Ptr> responses = {};  // the most recently used first
    std::size_t num_bytes = 0;
  };

  // With the lock held.
  void erase(std::uint64_t client, std::list<Ptr>::iterator found);
  void shrink();

  const StoreLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Client> clients_;  // only those with responses
  std::map<Key, std::list<Ptr>::iterator> index_;
  std::map<Key, std::shared_ptr<const std::string>> items_;
  std::size_t num_bytes_ = 0;
};

}  // namespace graft::server::openai::responses
