// Waiting sequences, by client. The next one is of the client that uses the fewest slots, then of
// the one that was served the fewest tokens; within a client, the one of lowest rank. A client is
// an API key or an address: many requests of one client do not delay those of another.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "graft/engine/sequence.h"

namespace graft::engine {

struct ByRank {
  bool operator()(const Sequence* a, const Sequence* b) const { return a->rank() < b->rank(); }
};
using RankedSequences = std::set<Sequence*, ByRank>;

using ClientId = std::uint64_t;
// Slots of running sequences, by client.
using ClientSlots = std::map<ClientId, std::int64_t>;

class FairQueue {
 public:
  void insert(Sequence& sequence);
  void erase(Sequence& sequence);  // no effect when it is not in the queue
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const std::map<ClientId, RankedSequences>& by_client() const { return by_client_; }

  // Counts tokens computed for a client.
  void serve(ClientId client, std::int64_t num_tokens) { served_[client] += num_tokens; }
  // Forgets clients that neither wait nor run: one that returns starts with the fewest tokens of
  // the others.
  void keep_only(const ClientSlots& running);

  // The next sequence among those that `is_allowed`; null: none.
  Sequence* next(const ClientSlots& slots,
                 const std::function<bool(const Sequence& sequence)>& is_allowed) const;

 private:
  std::map<ClientId, RankedSequences> by_client_;  // without empty sets
  std::map<ClientId, std::int64_t> served_;        // tokens
  std::size_t size_ = 0;
};

// Divides `budget` tokens between clients that could use `demands`: equal shares, and what one does
// not need goes to the others.
std::map<ClientId, std::int64_t> fair_shares(const std::map<ClientId, std::int64_t>& demands,
                                             std::int64_t budget);

}  // namespace graft::engine
