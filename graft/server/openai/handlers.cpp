#include "graft/server/openai/handlers.h"

#include <utility>

#include "graft/base/error.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/chat_request.h"
#include "graft/server/openai/chat_response.h"
#include "graft/server/openai/completion_request.h"
#include "graft/server/openai/completion_response.h"
#include "graft/server/openai/embeddings.h"
#include "graft/server/openai/tokenize_request.h"

namespace graft::server::openai {
namespace {

void chat(const HandlerContext& context,
          const http::ExchangePtr& exchange,
          const ChatRequest& request,
          Lease lease) {
  LoadedModel& model = *lease;
  const api::ChatPrompt prompt = chat_prompt(model, request.conversation);
  GenerationInput input = {
      .prompts = {prompt.tokens},
      .params = request.sampling.for_model(model.llm().source().config()),
      .client = context.access.client_of(exchange->request()),
      .options = {.priority = request.priority,
                  .cache_salt = context.access.cache_salt(exchange->request(), request.cache_salt)},
      .is_stream = request.is_stream,
      .stream_head = sse_head()};
  show_markers(model.tokenizer(), prompt, request.parse_tool_calls, input.params);
  auto writer = std::make_unique<ChatResponseWriter>(
      new_identity("chatcmpl", model.name()),
      ChatResponseOptions{.format = {.in_thinking = prompt.in_thinking,
                                     .parse_tool_calls = request.parse_tool_calls,
                                     .single_call = request.single_call,
                                     .reasoning = prompt.reasoning,
                                     .tool_calls = prompt.tool_calls,
                                     .tools = request.conversation.tools},
                          .num_choices = input.params.n,
                          .is_stream = request.is_stream,
                          .include_usage = request.include_usage,
                          .wants_logprobs = request.wants_logprobs,
                          .tokenizer = &model.tokenizer()});
  start_generation(exchange, std::move(lease), std::move(input), std::move(writer),
                   context.generation());
}

void complete(const HandlerContext& context,
              const http::ExchangePtr& exchange,
              const CompletionRequest& request,
              Lease lease) {
  LoadedModel& model = *lease;
  GenerationInput input = {
      .params = request.sampling.for_model(model.llm().source().config()),
      .client = context.access.client_of(exchange->request()),
      .options = {.priority = request.priority,
                  .cache_salt = context.access.cache_salt(exchange->request(), request.cache_salt)},
      .is_stream = request.is_stream,
      .stream_head = sse_head()};
  CompletionResponseOptions options = {.num_samples = input.params.n,
                                       .num_prompts = request.prompts.size(),
                                       .is_stream = request.is_stream,
                                       .include_usage = request.include_usage,
                                       .wants_logprobs = input.params.logprobs.has_value(),
                                       .discard_output = request.discard_output,
                                       .tokenizer = &model.tokenizer()};
  // Before tokenizing; start_generation() checks again with the echoed prompts.
  check_request({.num_prompts = request.prompts.size(), .is_stream = request.is_stream},
                input.params, model.llm().config().max_model_len, context.limits);
  for (const api::Prompt& prompt : request.prompts) {
    input.prompts.push_back(encode_prompt(model, prompt));
    if (!request.echo) continue;
    const auto* text = std::get_if<std::string>(&prompt);
    options.echoes.push_back(
        text != nullptr ? *text : model.tokenizer().decode(input.prompts.back(), true));
    input.size.echo_bytes += options.echoes.back().size();
    if (options.wants_logprobs) input.size.num_echo_logprobs += input.prompts.back().size();
  }
  if (request.echo && options.wants_logprobs) options.prompts = input.prompts;
  auto writer = std::make_unique<CompletionResponseWriter>(new_identity("cmpl", model.name()),
                                                           std::move(options));
  start_generation(exchange, std::move(lease), std::move(input), std::move(writer),
                   context.generation());
}

// Throws Error when the files of the model cannot be read.
OrderedJson model_json(const HandlerContext& context, const std::string& name) {
  const ModelInfo info = context.models.info(name);
  return {{"id", name},
          {"object", "model"},
          {"created", info.modified},
          {"owned_by", "graft"},
          {"max_model_len", info.context_length}};
}

http::Response list_models(const HandlerContext& context) {
  OrderedJson json = {{"object", "list"}, {"data", OrderedJson::array()}};
  for (const std::string& name : context.models.names()) {
    try {
      json["data"].push_back(model_json(context, name));
    } catch (const Error&) {
      // A model that cannot be loaded is left out; requests for it report the error.
    }
  }
  return {.body = ordered_text(json)};
}

// {prompt or content, or messages} to {tokens, count, max_model_len}
void tokenize(const http::ExchangePtr& exchange, const OrderedJson& body, LoadedModel& model) {
  const TokenizeRequest request = read_tokenize_request(body);
  std::vector<api::TokenId> tokens;
  if (request.conversation) {
    tokens = chat_prompt(model, *request.conversation).tokens;
  } else {
    check_fits(model, request.text);
    tokens = model.tokenizer().encode(request.text, {.add_special = request.add_special});
  }
  exchange->respond({.body = ordered_text({{"count", tokens.size()},
                                           {"max_model_len", model.llm().config().max_model_len},
                                           {"tokens", tokens}})});
}

void detokenize(const http::ExchangePtr& exchange, const OrderedJson& body, LoadedModel& model) {
  const std::string text = model.tokenizer().decode(read_detokenize_request(body), true);
  // vLLM names the field "prompt", llama.cpp "content".
  exchange->respond({.body = ordered_text({{"prompt", text}, {"content", text}})});
}

// A handler that parses the body and calls `work` with the model it names.
template <class Work>
http::Handler on_model(const HandlerContext& context, Work work) {
  return [&context, work](const http::ExchangePtr& exchange) {
    auto body = std::make_shared<const OrderedJson>(parse_body(exchange->take_body()));
    const std::string model = Fields(*body).string("model").value_or("");
    context.with_model(exchange, model, [exchange, body, work](const Lease& lease) {
      work(exchange, *body, *lease);
    });
  };
}

}  // namespace

void add_routes(Router& router, const HandlerContext& context) {
  router.add("POST", "/v1/chat/completions", [&context](const http::ExchangePtr& exchange) {
    auto request = read_chat_request(parse_body(exchange->take_body()));
    context.check_priority(exchange->request(), request.priority);
    const std::string model = request.model;
    context.with_model(exchange, model,
                       [&context, exchange, request = std::move(request)](Lease lease) {
                         chat(context, exchange, request, std::move(lease));
                       });
  });
  router.add("POST", "/v1/completions", [&context](const http::ExchangePtr& exchange) {
    auto request = read_completion_request(parse_body(exchange->take_body()));
    context.check_priority(exchange->request(), request.priority);
    const std::string model = request.model;
    context.with_model(exchange, model,
                       [&context, exchange, request = std::move(request)](Lease lease) {
                         complete(context, exchange, request, std::move(lease));
                       });
  });
  router.add("POST", "/v1/embeddings",
             [&context](const http::ExchangePtr& exchange) { embeddings(context, exchange); });
  router.add("POST", "/tokenize", on_model(context, tokenize));
  router.add("POST", "/detokenize", on_model(context, detokenize));
  router.add_sync("GET", "/v1/models",
                  [&context](const http::Request&) { return list_models(context); });
  router.add_sync("GET", "/v1/models/*", [&context](const http::Request& request) {
    const std::string name = request.path.substr(std::string_view("/v1/models/").size());
    return http::Response{.body = ordered_text(model_json(context, context.models.resolve(name)))};
  });
}

}  // namespace graft::server::openai
