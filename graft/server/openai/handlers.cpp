#include "graft/server/openai/handlers.h"

#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/generation/fill_in_middle.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/chat_request.h"
#include "graft/server/openai/chat_response.h"
#include "graft/server/openai/completion_request.h"
#include "graft/server/openai/completion_response.h"
#include "graft/server/openai/embeddings.h"
#include "graft/server/openai/rerank.h"
#include "graft/server/openai/tokenize_request.h"
#include "graft/server/time_text.h"
#include "graft/server/tools/tool_choice.h"

namespace graft::server::openai {
namespace {

// Of vLLM's prompt_logprobs in one answer.
std::size_t num_prompt_logprobs(const std::vector<std::vector<api::TokenId>>& prompts,
                                std::optional<std::int64_t> num_top) {
  std::size_t count = 0;
  for (const std::vector<api::TokenId>& prompt : prompts)
    count += num_top ? prompt.size() * (1 + static_cast<std::size_t>(*num_top)) : 0;
  return count;
}

void chat(const HandlerContext& context,
          const http::ExchangePtr& exchange,
          const ChatRequest& request,
          Lease lease) {
  LoadedModel& model = *lease;
  const api::ChatPrompt prompt = chat_prompt(model, request.conversation);
  GenerationInput input = {
      .prompts = {prompt.tokens},
      .params = request.sampling.for_model(model),
      .client = context.access.client_of(exchange->request()),
      .options = {.priority = request.priority,
                  .cache_salt = context.access.cache_salt(exchange->request(), request.cache_salt),
                  .images = prompt.images},
      .is_stream = request.is_stream,
      .stream_head = sse_head(),
      .structured_field = request.sampling.structured_field};
  input.size.num_prompt_logprobs = num_prompt_logprobs(input.prompts, input.params.prompt_logprobs);
  show_markers(model.tokenizer(), prompt, request.parse_tool_calls, input.params);
  constrain_output(prompt,
                   {.choice = request.tool_choice,
                    .tools = request.conversation.tools,
                    .is_single = request.single_call},
                   input);
  ChatResponseOptions options = {
      .format = output_format(prompt, request.conversation.tools, request.parse_tool_calls,
                              request.single_call),
      .num_choices = input.params.n,
      .is_stream = request.is_stream,
      .include_usage = request.include_usage,
      .wants_logprobs = request.wants_logprobs,
      .prompt_logprobs = input.params.prompt_logprobs,
      .tokenizer = &model.tokenizer()};
  auto writer =
      std::make_unique<ChatResponseWriter>(new_identity("chatcmpl", lease.name()), options);
  start_generation(exchange, std::move(lease), std::move(input), std::move(writer),
                   context.generation());
}

// Only a text at the start gets the tokens that begin a prompt.
std::vector<api::TokenId> encode_parts(LoadedModel& model,
                                       const PromptParts& parts,
                                       bool add_special) {
  std::vector<api::TokenId> tokens;
  if (add_special) tokens = encode_prompt(model, parts.front());
  for (std::size_t i = add_special ? 1 : 0; i < parts.size(); ++i) {
    const auto* text = std::get_if<std::string>(&parts[i]);
    if (text != nullptr) check_fits(model, *text);
    const std::vector<api::TokenId> more =
        text != nullptr ? model.tokenizer().encode(*text, {.add_special = false})
                        : std::get<std::vector<api::TokenId>>(parts[i]);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  return tokens;
}

// With a suffix, the text between both; the prompt is then one text.
std::vector<api::TokenId> completion_prompt(LoadedModel& model,
                                            const PromptParts& parts,
                                            const CompletionRequest& request) {
  const std::string& suffix = request.suffix;
  if (suffix.empty()) return encode_parts(model, parts, request.add_special_tokens);
  const auto& text = std::get<std::string>(parts.front());
  check_fits(model, text + suffix);
  return fill_prompt(model.tokenizer(), {.prefix = text, .suffix = suffix});
}

void complete(const HandlerContext& context,
              const http::ExchangePtr& exchange,
              const CompletionRequest& request,
              Lease lease) {
  LoadedModel& model = *lease;
  GenerationInput input = {
      .params = request.sampling.for_model(model),
      .client = context.access.client_of(exchange->request()),
      .options = {.priority = request.priority,
                  .cache_salt = context.access.cache_salt(exchange->request(), request.cache_salt)},
      .is_stream = request.is_stream,
      .stream_head = sse_head(),
      .structured_field = request.sampling.structured_field};
  CompletionResponseOptions options = {.num_samples = input.params.n,
                                       .num_prompts = request.prompts.size(),
                                       .is_stream = request.is_stream,
                                       .include_usage = request.include_usage,
                                       .wants_logprobs = input.params.logprobs.has_value(),
                                       .num_echo_top = input.params.logprobs.value_or(0),
                                       .prompt_logprobs = request.prompt_logprobs,
                                       .discard_output = request.discard_output,
                                       .tokenizer = &model.tokenizer()};
  if (!request.suffix.empty()) {
    for (const api::TokenId stop : fill_stop_tokens(model.tokenizer()))
      input.params.stop_token_ids.push_back(stop);
  }
  // Before tokenizing; start_generation() checks again with the echoed prompts.
  check_request({.num_prompts = request.prompts.size(), .is_stream = request.is_stream},
                input.params, model.llm().config().max_model_len, context.limits);
  for (const PromptParts& parts : request.prompts) {
    input.prompts.push_back(completion_prompt(model, parts, request));
    if (!request.echo) continue;
    const auto* text = std::get_if<std::string>(&parts.front());
    options.echoes.push_back(text != nullptr && parts.size() == 1
                                 ? *text
                                 : model.tokenizer().decode(input.prompts.back(), true));
    input.size.echo_bytes += options.echoes.back().size();
    if (options.wants_logprobs) input.size.num_echo_logprobs += input.prompts.back().size();
  }
  if (request.echo && options.wants_logprobs) options.prompts = input.prompts;
  input.size.num_prompt_logprobs = num_prompt_logprobs(input.prompts, request.prompt_logprobs) *
                                   static_cast<std::size_t>(input.params.n);
  auto writer = std::make_unique<CompletionResponseWriter>(new_identity("cmpl", lease.name()),
                                                           std::move(options));
  start_generation(exchange, std::move(lease), std::move(input), std::move(writer),
                   context.generation());
}

// In OpenAI's form, with the fields of Anthropic's. Throws Error when the files of the model cannot
// be read.
OrderedJson model_json(const HandlerContext& context, const std::string& name) {
  const ModelInfo info = context.models.info(name);
  return {{"id", name},
          {"object", "model"},
          {"created", info.modified},
          {"owned_by", "graft"},
          {"type", "model"},
          {"display_name", name},
          {"created_at", rfc3339(static_cast<double>(info.modified))},
          {"max_model_len", info.context_length}};
}

// As vLLM lists adapters: `parent` is the base model, `root` the name of the adapter's folder.
OrderedJson adapter_json(OrderedJson base, const api::AdapterSource& adapter) {
  const auto name = base["id"].get<std::string>();
  base["id"] = base["display_name"] = str(name, ':', adapter.name);
  base["root"] = adapter.path.filename().string();
  base["parent"] = name;
  return base;
}

http::Response list_models(const HandlerContext& context) {
  OrderedJson list = OrderedJson::array();
  for (const std::string& name : context.models.names()) {
    try {
      const OrderedJson base = model_json(context, name);
      list.push_back(base);
      for (const api::AdapterSource& adapter : context.models.adapters(name))
        list.push_back(adapter_json(base, adapter));
    } catch (const Error&) {
      // A model that cannot be loaded is left out; requests for it report the error.
    }
  }
  const OrderedJson none = nullptr;
  return {.body = ordered_text({{"object", "list"},
                                {"data", list},
                                {"first_id", list.empty() ? none : list.front()["id"]},
                                {"last_id", list.empty() ? none : list.back()["id"]},
                                {"has_more", false}})};
}

// {prompt or content, or messages} to {tokens, count, max_model_len}
void tokenize(const http::ExchangePtr& exchange, const OrderedJson& body, LoadedModel& model) {
  const TokenizeRequest request = read_tokenize_request(body);
  std::vector<api::TokenId> tokens;
  if (request.conversation) {
    const api::ChatPrompt prompt = chat_prompt(model, *request.conversation);
    if (!prompt.images.empty()) {
      throw ApiError(400,
                     "messages: images have no tokens of the vocabulary; "
                     "/v1/chat/completions/input_tokens counts them");
    }
    tokens = prompt.tokens;
  } else {
    check_fits(model, request.text);
    tokens = model.tokenizer().encode(
        request.text, {.add_special = request.add_special, .parse_special = request.parse_special});
  }
  exchange->respond({.body = ordered_text({{"count", tokens.size()},
                                           {"max_model_len", model.llm().config().max_model_len},
                                           {"tokens", tokens}})});
}

// The prompt tokens of a chat request.
void count_chat(const http::ExchangePtr& exchange, const ChatRequest& request, LoadedModel& model) {
  const api::ChatPrompt prompt = chat_prompt(model, request.conversation);
  exchange->respond({.body = input_tokens_body(static_cast<std::size_t>(prompt.num_tokens()))});
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
    const std::string model = read_model(Fields(*body));
    context.with_model(exchange, model, [exchange, body, work](const Lease& lease) {
      work(exchange, *body, *lease);
    });
  };
}

// `root` is "/v1", or empty for clients whose base URL lacks it.
void add_api(Router& router, const HandlerContext& context, const std::string& root) {
  router.add("POST", root + "/chat/completions", [&context](const http::ExchangePtr& exchange) {
    auto request = read_chat_request(parse_body(exchange->take_body()));
    context.check_priority(exchange->request(), request.priority);
    context.with_conversation(exchange, std::move(request),
                              [&context, exchange](const ChatRequest& chat_request, Lease lease) {
                                chat(context, exchange, chat_request, std::move(lease));
                              });
  });
  router.add("POST", root + "/chat/completions/input_tokens",
             [&context](const http::ExchangePtr& exchange) {
               context.with_conversation(
                   exchange, read_chat_request(parse_body(exchange->take_body())),
                   [exchange](const ChatRequest& request, const Lease& lease) {
                     count_chat(exchange, request, *lease);
                   });
             });
  router.add("POST", root + "/completions", [&context](const http::ExchangePtr& exchange) {
    auto request = read_completion_request(parse_body(exchange->take_body()));
    context.check_priority(exchange->request(), request.priority);
    const std::string model = request.model;
    context.with_model(exchange, model,
                       [&context, exchange, request = std::move(request)](Lease lease) {
                         complete(context, exchange, request, std::move(lease));
                       });
  });
  router.add("POST", root + "/embeddings",
             [&context](const http::ExchangePtr& exchange) { embeddings(context, exchange); });
  router.add_sync("GET", root + "/models",
                  [&context](const http::Request&) { return list_models(context); });
  router.add_sync("GET", root + "/models/*", [&context](const http::Request& request) {
    constexpr std::string_view kModels = "/models/";
    const std::string name = request.path.substr(request.path.find(kModels) + kModels.size());
    const ModelPool::Found found = context.models.look_up(name);
    const OrderedJson base = model_json(context, found.model.name);
    return http::Response{
        .body = ordered_text(found.adapter ? adapter_json(base, *found.adapter) : base)};
  });
}

}  // namespace

void add_routes(Router& router, const HandlerContext& context) {
  add_api(router, context, "/v1");
  add_api(router, context, "");
  for (const char* path : {"/v1/rerank", "/v2/rerank", "/rerank", "/reranking"}) {
    router.add("POST", path,
               [&context](const http::ExchangePtr& exchange) { rerank(context, exchange); });
  }
  for (const char* path : {"/v1/score", "/score"}) {
    router.add("POST", path,
               [&context](const http::ExchangePtr& exchange) { score(context, exchange); });
  }
  router.add("POST", "/tokenize", on_model(context, tokenize));
  router.add("POST", "/detokenize", on_model(context, detokenize));
}

}  // namespace graft::server::openai
