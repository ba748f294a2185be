#include "graft/server/ollama/handlers.h"

#include <chrono>
#include <memory>
#include <utility>

#include "graft/base/error.h"
#include "graft/formats/created_model.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/generation/embedding.h"
#include "graft/server/generation/fill_in_middle.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/ollama/chat_request.h"
#include "graft/server/ollama/embed_request.h"
#include "graft/server/ollama/models.h"
#include "graft/server/ollama/response.h"
#include "graft/server/time_text.h"
#include "graft/version.h"

namespace graft::server::ollama {
namespace {

using Clock = std::chrono::steady_clock;

// The Ollama version whose API this implements; clients reject old versions.
constexpr const char* kOllamaVersion = "0.13.5";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

api::ChatPrompt prompt_of(const Request& request, LoadedModel& model) {
  api::ChatPrompt prompt;
  if (!request.suffix.empty()) {
    check_fits(model, request.prompt + request.suffix);
    prompt.tokens =
        fill_prompt(model.tokenizer(), {.prefix = request.prompt, .suffix = request.suffix});
  } else if (request.is_raw) {
    prompt.tokens = encode_prompt(model, request.prompt);
  } else {
    prompt = chat_prompt(model, request.conversation);
  }
  prompt.tokens.insert(prompt.tokens.begin(), request.context.begin(), request.context.end());
  for (api::PromptImage& image : prompt.images)
    image.position += static_cast<std::int64_t>(request.context.size());
  return prompt;
}

// With the parameters of a created model where the request has none.
Options options_for(const Request& request, const LoadedModel& model) {
  const formats::CreatedModel* created = model.llm().source().created();
  if (created == nullptr || created->parameters.empty()) return request.options;
  OrderedJson merged = created->parameters;
  for (const auto& [name, value] : request.options_json.items())
    merged[name] = value;
  const OrderedJson body = {{"options", merged}};
  Options options = read_options(Fields(body));
  options.params.logprobs = request.options.params.logprobs;
  options.params.structured_output = request.options.params.structured_output;
  return options;
}

void generate(const HandlerContext& context,
              const http::ExchangePtr& exchange,
              const Request& request,
              Lease lease,
              double load_seconds) {
  LoadedModel& model = *lease;
  if (request.is_empty) {
    exchange->respond({.body = empty_response(model.name(), request.is_chat, "load", unix_now())});
    return;
  }
  const api::ChatPrompt prompt = prompt_of(request, model);
  GenerationInput input = {
      .prompts = {prompt.tokens},
      .params = options_for(request, model).for_model(model.llm().source().config()),
      .client = context.access.client_of(exchange->request()),
      .options = {.cache_salt = context.access.cache_salt(exchange->request()),
                  .images = prompt.images},
      .is_stream = request.is_stream,
      .stream_head = {.content_type = "application/x-ndjson"},
      .structured_field = "format"};
  limit_context(options_for(request, model).num_ctx, static_cast<std::size_t>(prompt.num_tokens()),
                input.params);
  if (!request.suffix.empty()) input.params.stop_token_ids = fill_stop_tokens(model.tokenizer());
  show_markers(model.tokenizer(), prompt, request.parse_tool_calls, input.params);
  api::constrain_after_reasoning(prompt, input.params);
  ResponseOptions options = {
      .model = lease.name(),
      .format = output_format(prompt, request.conversation.tools, request.parse_tool_calls),
      .is_chat = request.is_chat,
      .is_stream = request.is_stream,
      .wants_logprobs = input.params.logprobs.has_value(),
      .load_seconds = load_seconds,
      .tokenizer = &model.tokenizer(),
      .clock = unix_now};
  // A later prompt cannot refer to the images.
  if (!request.is_chat && prompt.images.empty()) options.context = prompt.tokens;
  start_generation(exchange, std::move(lease), std::move(input),
                   std::make_unique<OllamaResponseWriter>(std::move(options)),
                   context.generation());
}

http::Handler generate_handler(const HandlerContext& context,
                               Request (*read)(const OrderedJson& body)) {
  return [&context, read](const http::ExchangePtr& exchange) {
    const auto request = std::make_shared<const Request>(read(parse_body(exchange->take_body())));
    if (request->is_empty && request->keep_alive_seconds == 0.0) {
      const std::string model = context.models.resolve(request->model);
      context.models.unload(model);
      exchange->respond({.body = empty_response(model, request->is_chat, "unload", unix_now())});
      return;
    }
    context.with_model(
        exchange, request->model,
        [&context, exchange, request, start = Clock::now()](Lease lease) {
          generate(context, exchange, *request, std::move(lease), seconds_since(start));
        },
        request->keep_alive_seconds);
  };
}

// The legacy /api/embeddings returns one embedding.
void embed(const HandlerContext& context, const http::ExchangePtr& exchange, bool is_legacy) {
  const auto request = std::make_shared<const EmbedRequest>(
      read_embed(parse_body(exchange->take_body()), is_legacy));
  const auto start = Clock::now();
  context.with_model(
      exchange, request->model,
      [&context, exchange, request, is_legacy, start](const Lease& lease) {
        const double load_seconds = seconds_since(start);
        check_num_texts(request->texts.size(), context.limits);
        EmbeddingInput input = {.truncate = request->truncate,
                                .dimensions = request->dimensions,
                                .max_tokens = request->num_ctx};
        for (const std::string& text : request->texts)
          input.texts.push_back(encode_prompt(*lease, text, request->truncate));
        embed_async(
            context, exchange, lease, std::move(input), [=](const EmbeddingResult& embedded) {
              OrderedJson json;
              if (is_legacy) {
                json = {{"embedding",
                         embedded.vectors.empty() ? std::vector<float>() : embedded.vectors[0]}};
              } else {
                json = {{"model", lease.name()},
                        {"embeddings", embedded.vectors},
                        {"total_duration", static_cast<std::int64_t>(seconds_since(start) * 1e9)},
                        {"load_duration", static_cast<std::int64_t>(load_seconds * 1e9)},
                        {"prompt_eval_count", embedded.num_tokens}};
              }
              exchange->respond({.body = ordered_text(json)});
            });
      },
      request->keep_alive_seconds);
}

http::Response tags(const HandlerContext& context) {
  OrderedJson list = OrderedJson::array();
  for (const std::string& name : context.models.names()) {
    try {
      list.push_back(tag_json(context.models.info(name)));
    } catch (const Error&) {
      // A model with unreadable files is left out, the others are listed.
    }
  }
  return {.body = ordered_text({{"models", list}})};
}

http::Response show(const HandlerContext& context, const http::Request& request) {
  const std::string name = read_show(parse_body(request.body));
  return {.body = ordered_text(show_json(context.models.info(name)))};
}

std::uint64_t gpu_bytes(const api::DeviceMemory& memory) {
  std::uint64_t bytes = 0;
  for (const auto& [device, use] : memory) {
    if (device.type == DeviceType::Cuda) bytes += use.total();
  }
  return bytes;
}

http::Response running(const HandlerContext& context) {
  // "Never" is 100 years from now: clients parse a date.
  constexpr double kCenturySeconds = 3.15e9;
  OrderedJson list = OrderedJson::array();
  for (const ModelPool::Loaded& loaded : context.models.loaded()) {
    OrderedJson entry = tag_json(loaded.lease->info());
    const double left = loaded.expires_in_seconds < 0 ? kCenturySeconds : loaded.expires_in_seconds;
    entry["expires_at"] = rfc3339(unix_now() + left);
    entry["size_vram"] = gpu_bytes(loaded.lease->llm().memory_use());
    entry["context_length"] = loaded.lease->llm().config().max_model_len;
    list.push_back(std::move(entry));
  }
  return {.body = ordered_text({{"models", list}})};
}

http::Response no_push(const http::Request& request) {
  throw ApiError(501, str(request.path, ": is not supported: graft uploads no models"));
}

}  // namespace

void add_routes(Router& router, const HandlerContext& context) {
  router.add_sync("POST", "/api/push", no_push);
  router.add("POST", "/api/chat", generate_handler(context, read_chat));
  router.add("POST", "/api/generate", generate_handler(context, read_generate));
  router.add("POST", "/api/embed",
             [&context](const http::ExchangePtr& exchange) { embed(context, exchange, false); });
  router.add("POST", "/api/embeddings",
             [&context](const http::ExchangePtr& exchange) { embed(context, exchange, true); });
  router.add_sync("GET", "/api/tags", [&context](const http::Request&) { return tags(context); });
  router.add_sync("POST", "/api/show",
                  [&context](const http::Request& request) { return show(context, request); });
  router.add_sync("GET", "/api/ps", [&context](const http::Request&) { return running(context); });
  router.add_sync("GET", "/api/version", [](const http::Request&) {
    return http::Response{
        .body = ordered_text({{"version", kOllamaVersion}, {"graft", GRAFT_VERSION}})};
  });
}

}  // namespace graft::server::ollama
