#include "graft/cli/bench/load_client.h"

#include <chrono>
#include <memory>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "graft/base/error.h"
#include "graft/base/text/json.h"

namespace graft::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;
using Tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using HttpRequest = http::request<http::string_body>;
using Parser = http::response_parser<http::string_body>;

// A stream that receives no byte for this long fails.
constexpr std::chrono::minutes kStreamTimeout{10};
constexpr std::uint64_t kMaxBytes = 1U << 30U;  // per response

HttpRequest request_of(const ServerAddress& address, http::verb method, const std::string& path) {
  HttpRequest request{method, address.base + path, 11};
  request.set(http::field::host, address.host + ":" + address.port);
  if (!address.api_key.empty())
    request.set(http::field::authorization, "Bearer " + address.api_key);
  return request;
}

Tcp::resolver::results_type resolve(asio::io_context& context, const ServerAddress& address) {
  ErrorCode error;
  Tcp::resolver resolver(context);
  auto found = resolver.resolve(address.host, address.port, error);
  if (error) fail(address.host, ":", address.port, ": ", error.message());
  return found;
}

// The HTTP status and the error message of the response, if any.
std::string failure_text(const Parser& parser) {
  const Json body = Json::parse(parser.get().body(), nullptr, false);
  std::string text = str("HTTP ", parser.get().result_int());
  if (body.is_object() && body.contains("error") && body["error"].is_object())
    text += ": " + body["error"].value("message", "");
  return text;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class LoadClient : public std::enable_shared_from_this<LoadClient> {
 public:
  LoadClient(asio::io_context& context,
             ServerAddress address,
             std::string path,
             const Tcp::resolver::results_type& endpoints,
             const ClientLoad& load,
             std::vector<StreamResult>& results)
      : address_(std::move(address)),
        path_(std::move(path)),
        endpoints_(endpoints),
        load_(load),
        results_(results),
        stream_(context) {
    if (!load.api_key.empty()) address_.api_key = load.api_key;
  }

  void start_next() {
    const bool repeats = load_.repeat_seconds > 0;
    if (repeats && seconds_since(load_start_) > load_.repeat_seconds) return;
    if (repeats && next_body_ == load_.bodies.size()) next_body_ = 0;
    if (next_body_ == load_.bodies.size()) return;
    result_ = {};
    event_ = 0;
    buffer_.clear();
    request_ = request_of(address_, http::verb::post, path_);
    request_.set(http::field::content_type, "application/json");
    // A new connection for each request, like most clients.
    request_.set(http::field::connection, "close");
    request_.body() = load_.bodies[next_body_++];
    request_.prepare_payload();
    parser_ = std::make_unique<Parser>();
    parser_->body_limit(kMaxBytes);
    start_ = Clock::now();
    stream_.expires_after(kStreamTimeout);
    stream_.async_connect(endpoints_, [self = shared_from_this()](ErrorCode error, const auto&) {
      if (error) return self->end(error);
      self->send();
    });
  }

 private:
  void send() {
    http::async_write(stream_, request_,
                      [self = shared_from_this()](ErrorCode error, std::size_t /*bytes*/) {
                        if (error) return self->end(error);
                        self->read();
                      });
  }

  void read() {
    stream_.expires_after(kStreamTimeout);
    http::async_read_some(stream_, buffer_, *parser_,
                          [self = shared_from_this()](ErrorCode error, std::size_t /*bytes*/) {
                            if (error) return self->end(error);
                            self->on_data();
                          });
  }

  void on_data() {
    if (parser_->is_header_done() && parser_->get().result() == http::status::ok)
      event_ = read_events(parser_->get().body(), event_, seconds_since(start_), result_);
    if (parser_->is_done()) return end({});
    read();
  }

  void end(ErrorCode error) {
    result_.seconds = seconds_since(start_);
    if (error) {
      result_.failure = error.message();
    } else if (parser_->get().result() != http::status::ok) {
      result_.failure = failure_text(*parser_);
    } else if (result_.failure.empty() && result_.output_tokens == 0) {
      result_.failure = "the stream has no usage with completion_tokens";
    }
    results_.push_back(std::move(result_));
    ErrorCode ignored;
    stream_.socket().shutdown(Tcp::socket::shutdown_both, ignored);
    stream_.socket().close(ignored);
    start_next();
  }

  ServerAddress address_;
  std::string path_;
  const Tcp::resolver::results_type& endpoints_;
  const ClientLoad& load_;
  std::vector<StreamResult>& results_;
  std::size_t next_body_ = 0;

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  HttpRequest request_;
  std::unique_ptr<Parser> parser_;
  std::size_t event_ = 0;  // offset of the first event that is not parsed yet
  const Clock::time_point load_start_ = Clock::now();
  Clock::time_point start_;
  StreamResult result_;
};

std::int64_t count_in(const Json& usage, const char* key) {
  const auto found = usage.find(key);
  return found != usage.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

bool has_text(const Json& event) {
  if (!event.contains("choices") || !event["choices"].is_array()) return false;
  for (const Json& choice : event["choices"]) {
    const Json& delta = choice.contains("delta") ? choice["delta"] : choice;
    for (const char* key : {"text", "content", "reasoning_content"}) {
      const auto found = delta.find(key);
      if (found != delta.end() && found->is_string() &&
          !found->get_ref<const std::string&>().empty())
        return true;
    }
  }
  return false;
}

void read_event(std::string_view data, double now, StreamResult& result) {
  if (data == "[DONE]") return;
  const Json event = Json::parse(data, nullptr, false);
  if (!event.is_object()) {
    result.failure = "an event is not a JSON object";
  } else if (event.contains("error")) {
    result.failure = "error in the stream: " + event["error"].dump();
  } else {
    if (has_text(event)) result.chunk_seconds.push_back(now);
    const auto usage = event.find("usage");
    if (usage == event.end() || !usage->is_object()) return;
    result.prompt_tokens = count_in(*usage, "prompt_tokens");
    result.output_tokens = count_in(*usage, "completion_tokens");
  }
}

}  // namespace

ServerAddress parse_server_url(const std::string& url) {
  const std::string scheme = "http://";
  if (!url.starts_with(scheme)) fail(url, ": expected a URL that starts with http://");
  const std::size_t slash = url.find('/', scheme.size());
  const std::string authority = url.substr(scheme.size(), slash - scheme.size());
  const std::size_t colon = authority.rfind(':');
  ServerAddress address;
  address.host = authority.substr(0, colon);
  address.port = colon == std::string::npos ? "80" : authority.substr(colon + 1);
  if (address.host.starts_with('[') && address.host.ends_with(']'))
    address.host = address.host.substr(1, address.host.size() - 2);
  if (slash != std::string::npos) address.base = url.substr(slash);
  while (address.base.ends_with('/'))
    address.base.pop_back();
  if (address.base.ends_with("/v1")) address.base.resize(address.base.size() - 3);
  const bool is_number =
      !address.port.empty() && address.port.find_first_not_of("0123456789") == std::string::npos;
  if (address.host.empty() || !is_number) fail(url, ": expected http://HOST:PORT");
  return address;
}

std::string first_model(const ServerAddress& address) {
  asio::io_context context;
  const auto endpoints = resolve(context, address);
  ErrorCode error;
  Tcp::socket socket(context);
  asio::connect(socket, endpoints, error);
  Parser parser;
  beast::flat_buffer buffer;
  if (!error) http::write(socket, request_of(address, http::verb::get, "/v1/models"), error);
  if (!error) http::read(socket, buffer, parser, error);
  if (error) fail(address.host, ":", address.port, ": ", error.message());
  if (parser.get().result() != http::status::ok)
    fail(address.host, ":", address.port, ": /v1/models: ", failure_text(parser));
  const Json body = Json::parse(parser.get().body(), nullptr, false);
  if (!body.is_object() || !body.contains("data") || !body["data"].is_array() ||
      body["data"].empty() || !body["data"][0].is_object())
    fail(address.host, ":", address.port, ": /v1/models lists no model");
  return body["data"][0].value("id", "");
}

LoadResult run_load(const ServerAddress& address,
                    const std::string& path,
                    const std::vector<ClientLoad>& clients) {
  asio::io_context context(1);
  const auto endpoints = resolve(context, address);
  LoadResult load;
  const auto start = Clock::now();
  for (const ClientLoad& client : clients) {
    std::make_shared<LoadClient>(context, address, path, endpoints, client, load.streams)
        ->start_next();
  }
  context.run();
  load.seconds = seconds_since(start);
  return load;
}

std::size_t read_events(std::string_view text, std::size_t next, double now, StreamResult& result) {
  while (true) {
    const std::size_t end = text.find('\n', next);
    if (end == std::string_view::npos) return next;
    std::string_view line = text.substr(next, end - next);
    if (line.ends_with('\r')) line.remove_suffix(1);
    constexpr std::string_view kData = "data:";
    if (line.starts_with(kData)) {
      line.remove_prefix(kData.size());
      if (line.starts_with(' ')) line.remove_prefix(1);
      read_event(line, now, result);
    }
    next = end + 1;
  }
}

}  // namespace graft::cli
