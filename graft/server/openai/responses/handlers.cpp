#include "graft/server/openai/responses/handlers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/responses/item_list.h"
#include "graft/server/openai/responses/response.h"
#include "graft/server/openai/responses/turn.h"
#include "graft/server/tools/tool_choice.h"

namespace graft::server::openai::responses {
namespace {

using StorePtr = std::shared_ptr<ResponseStore>;
using TurnPtr = std::shared_ptr<Turn>;

void generate(const HandlerContext& context,
              const StorePtr& store,
              const http::ExchangePtr& exchange,
              const TurnPtr& turn,
              Lease lease) {
  LoadedModel& model = *lease;
  const ResponsesRequest& request = turn->request;
  const api::ChatPrompt prompt = turn_prompt(model, request);
  const Client client = context.access.client_of(exchange->request());
  GenerationInput input = {
      .prompts = {prompt.tokens},
      .params = request.sampling.for_model(model),
      .client = client,
      .options = {.priority = request.priority,
                  .cache_salt = context.access.cache_salt(exchange->request(), request.cache_salt),
                  .images = prompt.images},
      .is_stream = request.is_stream,
      .stream_head = sse_head(),
      .structured_field = request.sampling.structured_field};
  show_markers(model.tokenizer(), prompt, request.parse_tool_calls, input.params);
  constrain_output(prompt,
                   {.choice = request.tool_choice,
                    .tools = request.conversation.tools,
                    .is_single = request.single_call},
                   input);
  ResponseOptions options = {.format = output_format(prompt, request.conversation.tools,
                                                     request.parse_tool_calls, request.single_call),
                             .echo = request.echo,
                             .namespaces = request.namespaces,
                             .is_stream = request.is_stream,
                             .wants_logprobs = request.wants_logprobs,
                             .wants_summary = request.wants_summary,
                             .wants_encrypted = request.wants_encrypted,
                             .tokenizer = &model.tokenizer()};
  if (request.is_stored) {
    options.on_finish = [store, turn, id = client.id](const OrderedJson& response) {
      store->add(id, to_stored(*turn, response));
    };
  }
  Identity identity = new_identity("resp", lease.name());
  identity.id = new_id("resp_");
  auto writer = std::make_unique<ResponsesWriter>(std::move(identity), std::move(options));
  start_generation(exchange, std::move(lease), std::move(input), std::move(writer),
                   context.generation());
}

TurnPtr take_turn(const HandlerContext& context,
                  const StorePtr& store,
                  const http::ExchangePtr& exchange) {
  const std::uint64_t client = context.access.client_of(exchange->request()).id;
  return std::make_shared<Turn>(read_turn(parse_body(exchange->take_body()), *store, client));
}

// with_model(), after the images of the turn's messages were fetched.
void with_turn(const HandlerContext& context,
               const http::ExchangePtr& exchange,
               const TurnPtr& turn,
               const std::function<void(const Lease& lease)>& work) {
  context.with_model(exchange, turn->request.model, [&context, exchange, turn, work](Lease lease) {
    LoadedModel& model = *lease;
    context.with_images(exchange, turn->request.conversation.messages, model,
                        [turn, work, lease = std::move(lease)] { work(lease); });
  });
}

void create(const HandlerContext& context,
            const StorePtr& store,
            const http::ExchangePtr& exchange) {
  const TurnPtr turn = take_turn(context, store, exchange);
  context.check_priority(exchange->request(), turn->request.priority);
  with_turn(context, exchange, turn, [&context, store, exchange, turn](const Lease& lease) {
    generate(context, store, exchange, turn, lease);
  });
}

void count_tokens(const HandlerContext& context,
                  const StorePtr& store,
                  const http::ExchangePtr& exchange) {
  const TurnPtr turn = take_turn(context, store, exchange);
  with_turn(context, exchange, turn, [exchange, turn](const Lease& lease) {
    const std::size_t count = turn_prompt(*lease, turn->request).tokens.size();
    exchange->respond({.body = input_tokens_body(count)});
  });
}

// "resp_1/cancel" of "/v1/responses/resp_1/cancel" to its two parts.
struct ResponsePath {
  std::string id = {};
  std::string action = {};
};

ResponsePath response_path(const std::string& path) {
  constexpr std::string_view kFolder = "/responses/";
  const std::string rest = path.substr(path.find(kFolder) + kFolder.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  return {.id = rest.substr(0, slash),
          .action = slash == rest.size() ? std::string() : rest.substr(slash + 1)};
}

[[noreturn]] void fail_unknown_path(const std::string& path) {
  throw ApiError(404, str("no such path: ", path), {}, "not_found");
}

[[noreturn]] void fail_unknown(const std::string& id) {
  throw ApiError(404, str("no response ", id, " is stored"), "response_id", "response_not_found");
}

http::Response retrieve(const HandlerContext& context,
                        ResponseStore& store,
                        const http::Request& request) {
  const ResponsePath path = response_path(request.path);
  if (!path.action.empty() && path.action != "input_items") fail_unknown_path(request.path);
  const auto found = store.find(context.access.client_of(request).id, path.id);
  if (found == nullptr) fail_unknown(path.id);
  if (path.action == "input_items") return {.body = item_list(*found, request.query)};
  if (query_value(request.query, "stream").value_or("false") == "true")
    throw ApiError(400, "stream: a finished response is not streamed again", "stream");
  return {.body = found->text};
}

http::Response remove(const HandlerContext& context,
                      ResponseStore& store,
                      const http::Request& request) {
  const ResponsePath path = response_path(request.path);
  if (!path.action.empty()) fail_unknown_path(request.path);
  if (!store.remove(context.access.client_of(request).id, path.id)) fail_unknown(path.id);
  return {.body = ordered_text({{"id", path.id}, {"object", "response"}, {"deleted", true}})};
}

// Responses run while their client is connected: closing the connection cancels them.
http::Response cancel(const HandlerContext& context,
                      ResponseStore& store,
                      const http::Request& request) {
  const ResponsePath path = response_path(request.path);
  if (path.action != "cancel") fail_unknown_path(request.path);
  if (store.find(context.access.client_of(request).id, path.id) == nullptr) fail_unknown(path.id);
  throw ApiError(400,
                 str("response ", path.id,
                     " has finished; only background responses can be cancelled, and these are not "
                     "supported"),
                 "response_id", "response_not_cancellable");
}

}  // namespace

void add_routes(Router& router, const HandlerContext& context, const StoreLimits& limits) {
  const auto store = std::make_shared<ResponseStore>(limits);
  for (const std::string root : {"/v1/responses", "/responses"}) {
    router.add("POST", root, [&context, store](const http::ExchangePtr& exchange) {
      create(context, store, exchange);
    });
    router.add("POST", root + "/input_tokens",
               [&context, store](const http::ExchangePtr& exchange) {
                 count_tokens(context, store, exchange);
               });
    router.add_sync("GET", root + "/*", [&context, store](const http::Request& request) {
      return retrieve(context, *store, request);
    });
    router.add_sync("DELETE", root + "/*", [&context, store](const http::Request& request) {
      return remove(context, *store, request);
    });
    router.add_sync("POST", root + "/*", [&context, store](const http::Request& request) {
      return cancel(context, *store, request);
    });
  }
}

}  // namespace graft::server::openai::responses
