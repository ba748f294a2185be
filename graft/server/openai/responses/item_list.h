// The page of GET /v1/responses/{id}/input_items, and values of a query.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graft/server/openai/responses/store.h"

namespace graft::server::openai::responses {

// The decoded value of `name` in "a=1&b=2"; nullopt: absent.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

// The items of the request, as the query's `order` (desc, asc), `limit` (1 to 100) and `after` ask.
// Throws ApiError 400.
std::string item_list(const StoredResponse& response, std::string_view query);

}  // namespace graft::server::openai::responses
