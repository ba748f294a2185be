#include "graft/server/generation/reservation.h"

#include "graft/server/api_error.h"

namespace graft::server {

Reservation reserve(LoadedModel& model,
                    ClientMeter& clients,
                    const Client& client,
                    const ReservationSize& size) {
  Reservation reservation;
  reservation.use = clients.begin(client, size.num_sequences, size.num_prompt_tokens);
  try {
    reservation.slots = model.slots().reserve(client.id, size.num_sequences,
                                              model.llm().config().max_num_seqs + size.max_waiting);
  } catch (const ApiError&) {
    clients.count_rejected(client, "queue_full");
    throw;
  }
  return reservation;
}

}  // namespace graft::server
