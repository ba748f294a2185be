#include "graft/server/ollama/handlers.h"

#include <chrono>
#include <memory>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/version.h"
#include "graft/server/fields.h"
#include "graft/server/generation/embedding.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/ollama/answer.h"
#include "graft/server/ollama/chat_request.h"
#include "graft/server/ollama/models.h"
#include "graft/server/time_text.h"

namespace graft::server::ollama {
namespace {

using Clock = std::chrono::steady_clock;

// Whose API this is; clients refuse what looks too old.
constexpr const char* kOllamaVersion = "0.12.6";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

api::ChatPrompt prompt_of(const Request& request, const LoadedModel& model) {
  api::ChatPrompt prompt;
  if (request.is_raw) {
    prompt.tokens = tokens_of(model, request.prompt);
  } else {
    prompt = model.format().prompt(request.conversation);
  }
  prompt.tokens.insert(prompt.tokens.begin(), request.context.begin(), request.context.end());
  return prompt;
}

void generate(const HandlerContext& backend,
              const http::ExchangePtr& exchange,
              const Request& request,
              Lease lease,
              double load_seconds) {
  LoadedModel& model = *lease;
  if (request.is_empty) {
    exchange->respond({.body = empty_answer(model.name(), request.is_chat, "load", unix_now())});
    return;
  }
  const api::ChatPrompt prompt = prompt_of(request, model);
  GenerationInput input = {
      .prompts = {prompt.tokens},
      .params = request.options.for_model(model.llm().source().config()),
      .options = {.cache_salt = backend.access.cache_salt(exchange->request())},
      .is_stream = request.is_stream,
      .head = {.content_type = "application/x-ndjson"}};
  if (request.reads_tools) show_tool_marks(model.tokenizer(), input.params);
  AnswerOptions options = {
      .model = model.name(),
      .format = {.in_thinking = prompt.in_thinking, .reads_tools = request.reads_tools},
      .is_chat = request.is_chat,
      .is_stream = request.is_stream,
      .wants_logprobs = input.params.logprobs.has_value(),
      .load_seconds = load_seconds,
      .tokenizer = &model.tokenizer(),
      .clock = unix_now};
  if (!request.is_chat) options.context = prompt.tokens;
  start_generation(exchange, std::move(lease), std::move(input),
                   std::make_unique<OllamaAnswer>(std::move(options)), backend.generation());
}

http::Handler generating(const HandlerContext& backend, Request (*read)(const OrderedJson& body)) {
  return [&backend, read](const http::ExchangePtr& exchange) {
    const auto request = std::make_shared<const Request>(read(parse_body(exchange->take_body())));
    if (request->is_empty && request->keep_alive_seconds == 0.0) {
      const std::string model = backend.models.resolve(request->model);
      backend.models.unload(model);
      exchange->respond({.body = empty_answer(model, request->is_chat, "unload", unix_now())});
      return;
    }
    backend.with_model(
        exchange, request->model,
        [&backend, exchange, request, start = Clock::now()](Lease lease) {
          generate(backend, exchange, *request, std::move(lease), seconds_since(start));
        },
        request->keep_alive_seconds);
  };
}

// /api/embed takes texts and gives lists, the old /api/embeddings one of each.
void embed(const HandlerContext& backend, const http::ExchangePtr& exchange, bool is_old) {
  const OrderedJson body = parse_body(exchange->take_body());
  const Fields fields(body);
  const std::vector<std::string> texts = fields.texts(is_old ? "prompt" : "input");
  if (texts.empty()) fields.fail_at(is_old ? "prompt" : "input", "is missing");
  const bool truncate = fields.flag("truncate").value_or(true);
  const std::int64_t dimensions = fields.integer("dimensions", 1).value_or(0);
  const auto start = Clock::now();
  backend.with_model(
      exchange, fields.needed_text("model"),
      [&backend, exchange, texts, truncate, dimensions, is_old, start](const Lease& lease) {
        const double load_seconds = seconds_since(start);
        EmbedInput input = {.truncate = truncate, .dimensions = dimensions};
        for (const std::string& text : texts)
          input.texts.push_back(tokens_of(*lease, text));
        embed_later(backend, exchange, lease, std::move(input), [=](const Embedded& embedded) {
          OrderedJson json;
          if (is_old) {
            json = {{"embedding",
                     embedded.vectors.empty() ? std::vector<float>() : embedded.vectors[0]}};
          } else {
            json = {{"model", lease->name()},
                    {"embeddings", embedded.vectors},
                    {"total_duration", static_cast<std::int64_t>(seconds_since(start) * 1e9)},
                    {"load_duration", static_cast<std::int64_t>(load_seconds * 1e9)},
                    {"prompt_eval_count", embedded.num_tokens}};
          }
          exchange->respond({.body = ordered_text(json)});
        });
      },
      read_keep_alive(fields));
}

http::Response tags(const HandlerContext& backend) {
  OrderedJson list = OrderedJson::array();
  for (const std::string& name : backend.models.names()) {
    try {
      list.push_back(tag_json(backend.models.info(name)));
    } catch (const Error&) {
      // One broken file must not hide the others.
    }
  }
  return {.body = ordered_text({{"models", list}})};
}

http::Response show(const HandlerContext& backend, const http::Request& request) {
  const OrderedJson body = parse_body(request.body);
  const Fields fields(body);
  const std::string name =
      fields.has("model") ? fields.needed_text("model") : fields.needed_text("name");
  return {.body = ordered_text(show_json(backend.models.info(name)))};
}

http::Response running(const HandlerContext& backend) {
  // For ever is far away: clients parse a date.
  constexpr double kCenturySeconds = 3.15e9;
  OrderedJson list = OrderedJson::array();
  for (const ModelPool::Loaded& loaded : backend.models.loaded()) {
    OrderedJson entry = tag_json(loaded.lease->info());
    const double left = loaded.expires_in_seconds < 0 ? kCenturySeconds : loaded.expires_in_seconds;
    entry["expires_at"] = rfc3339(unix_now() + left);
    entry["size_vram"] = 0;
    entry["context_length"] = loaded.lease->llm().config().max_model_len;
    list.push_back(std::move(entry));
  }
  return {.body = ordered_text({{"models", list}})};
}

}  // namespace

void add_routes(Router& router, const HandlerContext& backend) {
  router.add("POST", "/api/chat", generating(backend, read_chat));
  router.add("POST", "/api/generate", generating(backend, read_generate));
  router.add("POST", "/api/embed",
             [&backend](const http::ExchangePtr& exchange) { embed(backend, exchange, false); });
  router.add("POST", "/api/embeddings",
             [&backend](const http::ExchangePtr& exchange) { embed(backend, exchange, true); });
  router.add_plain("GET", "/api/tags", [&backend](const http::Request&) { return tags(backend); });
  router.add_plain("POST", "/api/show",
                   [&backend](const http::Request& request) { return show(backend, request); });
  router.add_plain("GET", "/api/ps", [&backend](const http::Request&) { return running(backend); });
  router.add_plain("GET", "/api/version", [](const http::Request&) {
    return http::Response{
        .body = ordered_text({{"version", kOllamaVersion}, {"graft", GRAFT_VERSION}})};
  });
}

}  // namespace graft::server::ollama
