#include "graft/server/openai/handlers.h"

#include <utility>

#include "graft/base/error.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/chat_answer.h"
#include "graft/server/openai/chat_request.h"
#include "graft/server/openai/completion_answer.h"
#include "graft/server/openai/completion_request.h"
#include "graft/server/openai/embeddings.h"

namespace graft::server::openai {
namespace {

void chat(const HandlerContext& backend,
          const http::ExchangePtr& exchange,
          const ChatRequest& request,
          Lease lease) {
  LoadedModel& model = *lease;
  const api::ChatPrompt prompt = model.format().prompt(request.conversation);
  GenerationInput input = {
      .prompts = {prompt.tokens},
      .params = request.sampling.for_model(model.llm().source().config()),
      .options = {.priority = request.priority,
                  .cache_salt = backend.access.cache_salt(exchange->request(), request.cache_salt)},
      .is_stream = request.is_stream,
      .head = sse_head()};
  if (request.reads_tools) show_tool_marks(model.tokenizer(), input.params);
  auto answer = std::make_unique<ChatAnswer>(
      new_identity("chatcmpl", model.name()),
      ChatAnswerOptions{.format = {.in_thinking = prompt.in_thinking,
                                   .reads_tools = request.reads_tools,
                                   .only_one_call = request.only_one_call},
                        .num_choices = input.params.n,
                        .is_stream = request.is_stream,
                        .include_usage = request.include_usage,
                        .wants_logprobs = request.wants_logprobs,
                        .tokenizer = &model.tokenizer()});
  start_generation(exchange, std::move(lease), std::move(input), std::move(answer),
                   backend.generation());
}

void complete(const HandlerContext& backend,
              const http::ExchangePtr& exchange,
              const CompletionRequest& request,
              Lease lease) {
  LoadedModel& model = *lease;
  GenerationInput input = {
      .params = request.sampling.for_model(model.llm().source().config()),
      .options = {.priority = request.priority,
                  .cache_salt = backend.access.cache_salt(exchange->request(), request.cache_salt)},
      .is_stream = request.is_stream,
      .head = sse_head()};
  CompletionAnswerOptions options = {.num_samples = input.params.n,
                                     .num_prompts = request.prompts.size(),
                                     .is_stream = request.is_stream,
                                     .include_usage = request.include_usage,
                                     .wants_logprobs = input.params.logprobs.has_value(),
                                     .drops_output = request.drops_output,
                                     .tokenizer = &model.tokenizer()};
  for (const api::Prompt& prompt : request.prompts) {
    input.prompts.push_back(tokens_of(model, prompt));
    if (!request.echo) continue;
    const auto* text = std::get_if<std::string>(&prompt);
    options.echoes.push_back(
        text != nullptr ? *text : model.tokenizer().decode(input.prompts.back(), true));
  }
  options.prompts = input.prompts;
  auto answer =
      std::make_unique<CompletionAnswer>(new_identity("cmpl", model.name()), std::move(options));
  start_generation(exchange, std::move(lease), std::move(input), std::move(answer),
                   backend.generation());
}

OrderedJson model_json(const HandlerContext& backend, const std::string& name) {
  OrderedJson json = {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "graft"}};
  try {
    const ModelInfo info = backend.models.info(name);
    json["created"] = info.modified;
    json["max_model_len"] = info.context_length;
  } catch (const Error&) {
    // A model that cannot be read is still listed: asking for it says why.
  }
  return json;
}

http::Response list_models(const HandlerContext& backend) {
  OrderedJson json = {{"object", "list"}, {"data", OrderedJson::array()}};
  for (const std::string& name : backend.models.names())
    json["data"].push_back(model_json(backend, name));
  return {.body = ordered_text(json)};
}

// {prompt or content, or messages} to {tokens, count, max_model_len}
void tokenize(const http::ExchangePtr& exchange, const OrderedJson& body, LoadedModel& model) {
  const Fields fields(body);
  std::vector<api::TokenId> tokens;
  if (fields.has("messages")) {
    tokens = model.format().prompt(read_chat_request(body).conversation).tokens;
  } else {
    const char* name = fields.has("content") ? "content" : "prompt";
    tokens =
        model.tokenizer().encode(fields.needed_text(name),
                                 {.add_special = fields.flag("add_special_tokens").value_or(true)});
  }
  exchange->respond({.body = ordered_text({{"count", tokens.size()},
                                           {"max_model_len", model.llm().config().max_model_len},
                                           {"tokens", tokens}})});
}

void detokenize(const http::ExchangePtr& exchange, const OrderedJson& body, LoadedModel& model) {
  const Fields fields(body);
  if (!fields.has("tokens")) fields.fail_at("tokens", "is missing");
  const std::string text = model.tokenizer().decode(fields.ids("tokens"), true);
  // vLLM says prompt, llama.cpp says content.
  exchange->respond({.body = ordered_text({{"prompt", text}, {"content", text}})});
}

// A handler that parses its body first and then works on the model that it names.
template <class Work>
http::Handler on_model(const HandlerContext& backend, Work work) {
  return [&backend, work](const http::ExchangePtr& exchange) {
    auto body = std::make_shared<const OrderedJson>(parse_body(exchange->take_body()));
    const std::string model = Fields(*body).text("model").value_or("");
    backend.with_model(exchange, model, [exchange, body, work](const Lease& lease) {
      work(exchange, *body, *lease);
    });
  };
}

}  // namespace

void add_routes(Router& router, const HandlerContext& backend) {
  router.add("POST", "/v1/chat/completions", [&backend](const http::ExchangePtr& exchange) {
    auto request = read_chat_request(parse_body(exchange->take_body()));
    const std::string model = request.model;
    backend.with_model(exchange, model,
                       [&backend, exchange, request = std::move(request)](Lease lease) {
                         chat(backend, exchange, request, std::move(lease));
                       });
  });
  router.add("POST", "/v1/completions", [&backend](const http::ExchangePtr& exchange) {
    auto request = read_completion_request(parse_body(exchange->take_body()));
    const std::string model = request.model;
    backend.with_model(exchange, model,
                       [&backend, exchange, request = std::move(request)](Lease lease) {
                         complete(backend, exchange, request, std::move(lease));
                       });
  });
  router.add("POST", "/v1/embeddings",
             [&backend](const http::ExchangePtr& exchange) { embeddings(backend, exchange); });
  router.add("POST", "/tokenize", on_model(backend, tokenize));
  router.add("POST", "/detokenize", on_model(backend, detokenize));
  router.add_plain("GET", "/v1/models",
                   [&backend](const http::Request&) { return list_models(backend); });
  router.add_plain("GET", "/v1/models/*", [&backend](const http::Request& request) {
    const std::string name = request.path.substr(std::string_view("/v1/models/").size());
    return http::Response{.body = ordered_text(model_json(backend, backend.models.resolve(name)))};
  });
}

}  // namespace graft::server::openai
