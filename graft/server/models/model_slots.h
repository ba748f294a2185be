// Slots of a model, reserved by requests for their sequences: those that run and those that wait.
// When all are taken, a client with less than its share is still admitted, so that no client keeps
// the others out. Thread-safe.

#pragma once

#include <cstdint>
#include <memory>

namespace graft::server {

class ModelSlots {
 public:
  // A client's share is this part of the slots, or an even part when more clients have slots. So
  // `n` clients together exceed the slots by at most 1 + log(n / 64) times their number.
  static constexpr std::int64_t kMinClients = 64;

  ModelSlots();

  // Reserves slots until the last copy of the returned handle is destroyed, which may outlive this
  // object. Throws ApiError 429 when the slots of all clients exceed `max_slots` and those of this
  // client its share. A request larger than all slots is accepted when none is taken.
  std::shared_ptr<void> reserve(std::uint64_t client,
                                std::int64_t num_sequences,
                                std::int64_t max_slots);

 private:
  struct State;

  std::shared_ptr<State> state_;
};

}  // namespace graft::server
