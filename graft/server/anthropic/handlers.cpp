#include "graft/server/anthropic/handlers.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "graft/server/anthropic/messages_request.h"
#include "graft/server/anthropic/messages_response.h"
#include "graft/server/fields.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/wire.h"
#include "graft/server/tools/tool_choice.h"

namespace graft::server::anthropic {
namespace {

void create(const HandlerContext& context,
            const http::ExchangePtr& exchange,
            const MessagesRequest& request,
            Lease lease) {
  LoadedModel& model = *lease;
  const api::ChatPrompt prompt = chat_prompt(model, request.conversation);
  GenerationInput input = {.prompts = {prompt.tokens},
                           .params = request.sampling.for_model(model),
                           .client = context.access.client_of(exchange->request()),
                           .options = {.cache_salt = context.access.cache_salt(exchange->request()),
                                       .images = prompt.images},
                           .is_stream = request.is_stream,
                           .stream_head = event_head(),
                           .structured_field = request.sampling.structured_field};
  show_markers(model.tokenizer(), prompt, request.parse_tool_calls, input.params);
  constrain_output(prompt,
                   {.choice = request.tool_choice,
                    .tools = request.conversation.tools,
                    .is_single = request.single_call},
                   input);
  MessagesResponseOptions options = {
      .id = openai::new_id("msg_"),
      .model = lease.name(),
      .format = output_format(prompt, request.conversation.tools, request.parse_tool_calls,
                              request.single_call),
      .num_prompt = prompt.num_tokens(),
      .is_stream = request.is_stream,
      .shows_thinking = request.shows_thinking};
  start_generation(exchange, std::move(lease), std::move(input),
                   std::make_unique<MessagesResponseWriter>(std::move(options)),
                   context.generation());
}

void count_tokens(const http::ExchangePtr& exchange,
                  const MessagesRequest& request,
                  LoadedModel& model) {
  const api::ChatPrompt prompt = chat_prompt(model, request.conversation);
  exchange->respond({.body = ordered_text({{"input_tokens", prompt.num_tokens()}})});
}

}  // namespace

void add_routes(Router& router, const HandlerContext& context) {
  router.add("POST", "/v1/messages", [&context](const http::ExchangePtr& exchange) {
    context.with_conversation(exchange, read_messages_request(parse_body(exchange->take_body())),
                              [&context, exchange](const MessagesRequest& request, Lease lease) {
                                create(context, exchange, request, std::move(lease));
                              });
  });
  router.add("POST", "/v1/messages/count_tokens", [&context](const http::ExchangePtr& exchange) {
    context.with_conversation(exchange, read_count_request(parse_body(exchange->take_body())),
                              [exchange](const MessagesRequest& request, const Lease& lease) {
                                count_tokens(exchange, request, *lease);
                              });
  });
}

}  // namespace graft::server::anthropic
