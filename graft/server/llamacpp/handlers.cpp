#include "graft/server/llamacpp/handlers.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/generation/fill_in_middle.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/llamacpp/request.h"
#include "graft/server/llamacpp/response.h"
#include "graft/server/openai/chat_request.h"
#include "graft/server/openai/wire.h"
#include "graft/version.h"

namespace graft::server::llamacpp {
namespace {

std::vector<api::TokenId> prompt_tokens(const Request& request, LoadedModel& model) {
  if (!request.is_infill) return encode_prompt(model, request.prompt);
  const auto& prefix = std::get<std::string>(request.prompt);
  check_fits(model, prefix + request.suffix);
  return fill_prompt(model.tokenizer(), {.prefix = prefix,
                                         .suffix = request.suffix,
                                         .files = request.files,
                                         .field = "input_suffix"});
}

void complete(const HandlerContext& context,
              const http::ExchangePtr& exchange,
              const Request& request,
              Lease lease) {
  LoadedModel& model = *lease;
  GenerationInput input = {
      .prompts = {prompt_tokens(request, model)},
      .params = request.sampling.for_model(model),
      .client = context.access.client_of(exchange->request()),
      .options = {.cache_salt = context.access.cache_salt(exchange->request())},
      .is_stream = request.is_stream,
      .stream_head = openai::sse_head()};
  if (input.params.n != 1) throw ApiError(400, "n: use /v1/completions", "n");
  if (request.is_infill) {
    for (const api::TokenId stop : fill_stop_tokens(model.tokenizer()))
      input.params.stop_token_ids.push_back(stop);
  }
  ResponseOptions options = {.model = lease.name(),
                             .prompt = model.tokenizer().decode(input.prompts[0], true),
                             .is_stream = request.is_stream,
                             .return_tokens = request.return_tokens,
                             .wants_logprobs = input.params.logprobs.has_value(),
                             .is_prompt_only = request.is_prompt_only,
                             .fields = request.response_fields,
                             .tokenizer = &model.tokenizer()};
  input.size.echo_bytes = options.prompt.size();
  start_generation(exchange, std::move(lease), std::move(input),
                   std::make_unique<CompletionWriter>(std::move(options)), context.generation());
}

http::Handler completion_handler(const HandlerContext& context,
                                 Request (*read)(const OrderedJson& body)) {
  return [&context, read](const http::ExchangePtr& exchange) {
    const auto request = std::make_shared<const Request>(read(parse_body(exchange->take_body())));
    context.with_model(exchange, request->model, [&context, exchange, request](Lease lease) {
      complete(context, exchange, *request, std::move(lease));
    });
  };
}

std::string token_name(const tokenizer::Tokenizer& tokenizer, std::optional<api::TokenId> id) {
  return id ? std::string(tokenizer.token(*id)) : std::string();
}

OrderedJson props_json(LoadedModel& model) {
  const api::EngineConfig& config = model.llm().config();
  const tokenizer::Tokenizer& tokenizer = model.tokenizer();
  return {{"default_generation_settings", {{"n_ctx", config.max_model_len}}},
          {"total_slots", config.max_num_seqs},
          {"model_alias", model.name()},
          {"model_path", model.name()},
          {"modalities", {{"vision", model.llm().has_vision()}, {"audio", false}}},
          {"chat_template", model.info().chat_template},
          {"bos_token", token_name(tokenizer, tokenizer.bos())},
          {"eos_token", token_name(tokenizer, tokenizer.eos())},
          {"build_info", str("graft ", GRAFT_VERSION)}};
}

// Sequences have no fixed slots: as many are shown as can run, those that run first.
OrderedJson slots_json(LoadedModel& model) {
  const api::EngineConfig& config = model.llm().config();
  const std::int64_t num_running = model.llm().stats().num_running;
  OrderedJson slots = OrderedJson::array();
  for (std::int64_t i = 0; i < config.max_num_seqs; ++i) {
    slots.push_back(
        {{"id", i}, {"n_ctx", config.max_model_len}, {"is_processing", i < num_running}});
  }
  return slots;
}

// A handler that describes the first model, or that of the query "model=NAME".
http::Handler model_handler(const HandlerContext& context, OrderedJson (*json)(LoadedModel&)) {
  return [&context, json](const http::ExchangePtr& exchange) {
    constexpr std::string_view kModel = "model=";
    const std::string& query = exchange->request().query;
    const std::size_t at = query.find(kModel);
    std::string name;
    if (at != std::string::npos) {
      const std::size_t begin = at + kModel.size();
      name = http::percent_decoded(query.substr(begin, query.find('&', begin) - begin));
    }
    context.with_model(exchange, name, [exchange, json](const Lease& lease) {
      exchange->respond({.body = ordered_text(json(*lease))});
    });
  };
}

void apply_template(const HandlerContext& context, const http::ExchangePtr& exchange) {
  const auto request = std::make_shared<const openai::ChatRequest>(
      openai::read_chat_request(parse_body(exchange->take_body())));
  context.with_model(exchange, request->model, [exchange, request](const Lease& lease) {
    const api::ChatPrompt prompt = lease->format().render_prompt(request->conversation);
    exchange->respond({.body = ordered_text({{"prompt", prompt.text}})});
  });
}

}  // namespace

void add_routes(Router& router, const HandlerContext& context) {
  router.add("POST", "/completion", completion_handler(context, read_completion));
  router.add("POST", "/infill", completion_handler(context, read_infill));
  router.add("GET", "/props", model_handler(context, props_json));
  router.add("GET", "/slots", model_handler(context, slots_json));
  router.add("POST", "/apply-template",
             [&context](const http::ExchangePtr& exchange) { apply_template(context, exchange); });
}

}  // namespace graft::server::llamacpp
