// One turn of a conversation: a request with the items that precede its output.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graft/api/chat_format.h"
#include "graft/base/text/json.h"
#include "graft/server/models/loaded_model.h"
#include "graft/server/openai/responses/request.h"
#include "graft/server/openai/responses/store.h"

namespace graft::server::openai::responses {

struct Turn {
  ResponsesRequest request = {};
  std::vector<StoredItem> items = {};  // of previous responses and of the request
  std::size_t num_previous = 0;
};

// Looks up the previous response and references. Throws ApiError 400.
Turn read_turn(const OrderedJson& body, ResponseStore& store, std::uint64_t client);

// What is kept of the finished response.
StoredResponse to_stored(const Turn& turn, const OrderedJson& response);

// With truncation "auto" the oldest turns are left out until the prompt fits into the context.
// Throws like chat_prompt().
api::ChatPrompt turn_prompt(LoadedModel& model, const ResponsesRequest& request);

}  // namespace graft::server::openai::responses
