#include "graft/server/openai/responses/item_list.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/http/message.h"
#include "graft/server/json_text.h"

namespace graft::server::openai::responses {
namespace {

std::size_t limit_of(std::string_view query) {
  constexpr std::size_t kDefault = 20;
  constexpr std::size_t kMax = 100;
  const auto text = query_value(query, "limit");
  if (!text) return kDefault;
  std::size_t limit = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), limit);
  if (error != std::errc() || end != text->data() + text->size() || limit < 1 || limit > kMax)
    throw ApiError(400, str("limit: expected 1 to ", kMax, ", got ", *text), "limit");
  return limit;
}

bool is_descending(std::string_view query) {
  const std::string order = query_value(query, "order").value_or("desc");
  if (order != "asc" && order != "desc")
    throw ApiError(400, str("order: expected asc or desc, got ", order), "order");
  return order == "desc";
}

}  // namespace

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view item = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(item.size() + 1, query.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    if (http::percent_decoded(item.substr(0, equals)) != name) continue;
    return http::percent_decoded(item.substr(std::min(equals + 1, item.size())));
  }
  return std::nullopt;
}

std::string item_list(const StoredResponse& response, std::string_view query) {
  const auto begin = response.items.begin() + static_cast<std::ptrdiff_t>(response.num_previous);
  std::vector<StoredItem> items(begin, begin + static_cast<std::ptrdiff_t>(response.num_input));
  if (is_descending(query)) std::ranges::reverse(items);
  if (const auto after = query_value(query, "after")) {
    const auto found = std::ranges::find(items, *after, &StoredItem::id);
    if (found == items.end())
      throw ApiError(400, str("after: the response has no item ", *after), "after");
    items.erase(items.begin(), std::next(found));
  }
  const std::size_t count = std::min(limit_of(query), items.size());
  const auto id_text = [&](std::size_t index) {
    return count == 0 ? "null" : ordered_text(items[index].id);
  };
  std::string data;
  for (std::size_t i = 0; i < count; ++i)
    append_item(data, *items[i].text);
  JsonObjectText list(OrderedJson{{"object", "list"}});
  list.add("data", str("[", data, "]"));
  list.add("first_id", id_text(0));
  list.add("last_id", id_text(count - 1));
  list.add("has_more", count < items.size() ? "true" : "false");
  return list.take();
}

}  // namespace graft::server::openai::responses
