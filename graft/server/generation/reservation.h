// What a request reserves before it is submitted: its share of the client's limits, and slots of
// the model.

#pragma once

#include <cstdint>
#include <memory>

#include "graft/server/clients/client_meter.h"
#include "graft/server/models/loaded_model.h"

namespace graft::server {

struct Reservation {
  std::shared_ptr<void> slots = {};
  std::unique_ptr<ClientMeter::Use> use = {};

  // All sequences have ended.
  void release() {
    slots.reset();
    use->end();
  }
};

struct ReservationSize {
  std::int64_t num_sequences = 0;
  std::int64_t num_prompt_tokens = 0;
  std::int64_t max_waiting = 0;  // queued sequences of the model, beyond those that run
};

// Throws ApiError: 429, or 400 when the request alone exceeds a limit of the client.
Reservation reserve(LoadedModel& model,
                    ClientMeter& clients,
                    const Client& client,
                    const ReservationSize& size);

}  // namespace graft::server
