#include "graft/server/openai/responses/turn.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/responses/items.h"

namespace graft::server::openai::responses {
namespace {

StoredItem stored_item(const OrderedJson& item) {
  return {.id = item["id"].get<std::string>(),
          .text = std::make_shared<const std::string>(ordered_text(item))};
}

StoredItem referenced(const ResponseStore& store, std::uint64_t client, const std::string& id) {
  auto text = store.find_item(client, id);
  if (text == nullptr)
    throw ApiError(400, str("input: no item ", id, " is stored"), "input", "item_not_found");
  return {.id = id, .text = std::move(text)};
}

// The conversation without the oldest `num_dropped` turns; a turn begins with a user's message.
// Messages before the first turn stay.
api::Conversation without_turns(const api::Conversation& conversation,
                                const std::vector<std::size_t>& starts,
                                std::size_t num_dropped) {
  api::Conversation rest = conversation;
  const auto at = [&](std::size_t turn) {
    return rest.messages.begin() + static_cast<std::ptrdiff_t>(starts[turn]);
  };
  rest.messages.erase(at(0), at(num_dropped));
  return rest;
}

// nullopt: does not fit.
std::optional<api::ChatPrompt> fitting_prompt(LoadedModel& model,
                                              const api::Conversation& conversation) {
  try {
    api::ChatPrompt prompt = chat_prompt(model, conversation);
    const auto length = prompt.num_tokens();
    if (length < model.llm().config().max_model_len) return prompt;
  } catch (const ApiError& error) {
    if (error.code != "context_length_exceeded") throw;
  }
  return std::nullopt;
}

}  // namespace

Turn read_turn(const OrderedJson& body, ResponseStore& store, std::uint64_t client) {
  Turn turn = {.request = read_responses_request(body)};
  ResponsesRequest& request = turn.request;
  OrderedJson items = OrderedJson::array();
  if (const std::string& id = request.previous_response_id; !id.empty()) {
    const auto previous = store.find(client, id);
    if (previous == nullptr) {
      throw ApiError(400, str("previous_response_id: no response ", id, " is stored"),
                     "previous_response_id", "previous_response_not_found");
    }
    turn.items = previous->items;
    turn.num_previous = previous->items.size();
    for (const StoredItem& item : turn.items)
      items.push_back(parse_ordered_json(*item.text, "item"));
  }
  for (OrderedJson& item : request.items) {
    if (item["type"] == "item_reference") {
      turn.items.push_back(referenced(store, client, item["id"].get<std::string>()));
      items.push_back(parse_ordered_json(*turn.items.back().text, "item"));
    } else {
      turn.items.push_back(stored_item(item));
      items.push_back(std::move(item));
    }
  }
  request.items = nullptr;
  request.conversation.messages = to_messages(items, request.instructions);
  return turn;
}

StoredResponse to_stored(const Turn& turn, const OrderedJson& response) {
  StoredResponse stored = {.id = response["id"].get<std::string>(),
                           .text = ordered_text(response),
                           .items = turn.items,
                           .num_previous = turn.num_previous,
                           .num_input = turn.items.size() - turn.num_previous};
  for (const OrderedJson& item : response["output"])
    stored.items.push_back(stored_item(item));
  return stored;
}

api::ChatPrompt turn_prompt(LoadedModel& model, const ResponsesRequest& request) {
  const api::Conversation& whole = request.conversation;
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; request.truncates && i < whole.messages.size(); ++i) {
    if (whole.messages[i]["role"] == "user") starts.push_back(i);
  }
  if (starts.size() < 2) return chat_prompt(model, whole);
  if (auto prompt = fitting_prompt(model, whole)) return *std::move(prompt);
  std::optional<api::ChatPrompt> best;
  std::size_t low = 1;
  std::size_t high = starts.size() - 1;
  // Every message has a token: renders no conversation that cannot fit.
  const auto max_messages = static_cast<std::size_t>(model.llm().config().max_model_len);
  while (low < high && whole.messages.size() - starts[low] > max_messages)
    ++low;
  while (low <= high) {
    const std::size_t middle = low + (high - low) / 2;
    auto prompt = fitting_prompt(model, without_turns(whole, starts, middle));
    if (prompt) {
      best = std::move(prompt);
      high = middle - 1;
    } else {
      low = middle + 1;
    }
  }
  return best ? *std::move(best) : chat_prompt(model, whole);
}

}  // namespace graft::server::openai::responses
