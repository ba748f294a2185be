// Fuzzes client input: the body of a request of each API, or an HTTP request with such a body.
// Reading either returns a request within its limits or throws ApiError or Error.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/chat/messages.h"
#include "graft/engine/sampling_params.h"
#include "graft/server/access/access.h"
#include "graft/server/anthropic/messages_request.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/http/head.h"
#include "graft/server/http/parse.h"
#include "graft/server/llamacpp/request.h"
#include "graft/server/ollama/chat_request.h"
#include "graft/server/ollama/embed_request.h"
#include "graft/server/openai/chat_request.h"
#include "graft/server/openai/completion_request.h"
#include "graft/server/openai/embedding_request.h"
#include "graft/server/openai/rerank_request.h"
#include "graft/server/openai/responses/item_list.h"
#include "graft/server/openai/responses/turn.h"
#include "graft/server/openai/tokenize_request.h"

namespace {

namespace server = graft::server;
namespace http = graft::server::http;
using graft::OrderedJson;

// Runs `work` as the server does, which turns both exceptions into responses.
template <class Work>
void catching_errors(const Work& work) {
  try {
    work();
  } catch (const server::ApiError& error) {
    GRAFT_CHECK(error.status >= 400 && error.status < 500, "status ", error.status);
    for (const char* path : {"/api/chat", "/v1/messages", "/v1/responses"})
      server::error_response(error, path);
  } catch (const graft::Error&) {
    return;
  }
}

void check(const graft::engine::SamplingParams& params) {
  GRAFT_CHECK(params.n >= 1 && params.n <= 128, "n ", params.n);
  GRAFT_CHECK(params.stop.size() <= server::kMaxStops, params.stop.size(), " stops");
  GRAFT_CHECK(params.max_tokens.value_or(1) >= 1, "max_tokens ", *params.max_tokens);
  graft::engine::validate(params, 1000);
}

// The conversions before a template is rendered.
void check(const graft::api::Conversation& conversation) {
  graft::chat::check_messages(conversation.messages);
  graft::chat::check_tools(conversation.tools);
  graft::chat::flatten_content(graft::chat::parse_tool_arguments(conversation.messages));
}

// The requests of Anthropic's API and of OpenAI's Responses; the output of the latter is stored,
// and a next request refers to it.
void read_agent_requests(const OrderedJson& body) {
  namespace responses = server::openai::responses;
  catching_errors([&] {
    const auto request = server::anthropic::read_messages_request(body);
    check(request.conversation);
    check(request.sampling.params);
  });
  catching_errors([&] { check(server::anthropic::read_count_request(body).conversation); });
  catching_errors([&] {
    responses::ResponseStore store;
    const auto turn = responses::read_turn(body, store, 1);
    check(turn.request.sampling.params);
    store.add(1, responses::to_stored(turn, {{"id", "r"}, {"output", OrderedJson::array()}}));
    const auto stored = store.find(1, "r");
    GRAFT_CHECK(stored != nullptr, "the response was not stored");
    responses::item_list(*stored, "limit=100");
    const OrderedJson next = {{"input", "Hi"}, {"previous_response_id", "r"}};
    check(responses::read_turn(next, store, 1).request.conversation);
  });
}

void read_body(const std::string& text) {
  OrderedJson body;
  try {
    body = server::parse_body(text);
  } catch (const server::ApiError&) {
    return;
  }
  catching_errors([&] {
    const auto request = server::openai::read_chat_request(body);
    check(request.conversation);
    check(request.sampling.params);
  });
  catching_errors([&] { check(server::openai::read_completion_request(body).sampling.params); });
  catching_errors([&] { server::openai::read_embedding_request(body); });
  catching_errors([&] {
    const auto request = server::openai::read_rerank_request(body);
    GRAFT_CHECK(request.top_n <= request.documents.size(), "top_n ", request.top_n);
  });
  catching_errors([&] {
    const auto request = server::openai::read_score_request(body);
    for (const auto& [first, second] : request.pairs)
      GRAFT_CHECK(first < request.texts.size() && second < request.texts.size(), "pairs");
  });
  catching_errors([&] { check(server::llamacpp::read_completion(body).sampling.params); });
  catching_errors([&] { check(server::llamacpp::read_infill(body).sampling.params); });
  catching_errors([&] {
    const auto request = server::ollama::read_chat(body);
    if (!request.is_empty) check(request.conversation);
    check(request.options.params);
  });
  catching_errors([&] { check(server::ollama::read_generate(body).options.params); });
  catching_errors([&] {
    const auto request = server::openai::read_tokenize_request(body);
    if (request.conversation) check(*request.conversation);
  });
  catching_errors([&] { server::openai::read_detokenize_request(body); });
  for (const bool is_legacy : {false, true}) {
    catching_errors([&] {
      const auto request = server::ollama::read_embed(body, is_legacy);
      GRAFT_CHECK(!request.texts.empty() && request.dimensions >= 0, "dimensions ",
                  request.dimensions);
    });
  }
  catching_errors([&] { server::ollama::read_show(body); });
  read_agent_requests(body);
}

const server::Access& access_for_pages() {
  static const server::Access access = [] {
    server::AccessConfig config = {.origins = {"*"}};
    config.keys.add_list("secret");
    return server::Access(config);
  }();
  return access;
}

// Parts of the request that the response repeats must be valid in a response head.
void write_head(const http::Request& request) {
  http::Head head = {.headers = access_for_pages().headers(request)};
  if (const auto response = access_for_pages().gate(request)) {
    head.status = response->status;
    head.headers.insert(head.headers.end(), response->headers.begin(), response->headers.end());
  }
  head.headers.push_back({.name = "x-request-id", .value = request.id});
  http::head_text(head);
}

void read_http(std::string_view bytes) {
  http::Parser parser;
  parser.eager(true);
  parser.header_limit(32U << 10U);
  parser.body_limit(1U << 20U);
  boost::system::error_code error;
  while (!bytes.empty() && !error && !parser.is_done()) {
    const std::size_t count = parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
    bytes.remove_prefix(count);
  }
  if (error) {
    const int status = http::status_of(error);
    GRAFT_CHECK(status == 0 || (status >= 400 && status < 500), "status ", status);
  }
  if (!parser.is_header_done()) return;
  write_head(http::to_request(parser, "127.0.0.1"));
  if (parser.is_done()) read_body(parser.get().body());
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('{')) {
    read_body(text);
  } else {
    read_http(text);
  }
  return 0;
}
