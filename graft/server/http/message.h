// HTTP requests and responses as plain values. No sockets: handlers and their tests use only this.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft::server::http {

struct Header {
  std::string name;  // lower case in requests
  std::string value;
};

struct Request {
  std::string method = {};
  std::string path = {};   // percent-decoded, without the query
  std::string query = {};  // not decoded
  std::vector<Header> headers = {};
  std::string body = {};
  std::string remote = {};  // the client's address
  std::string id = {};      // x-request-id from the client, or a generated one

  // The value of the first header with this lower-case name, or empty.
  std::string_view header(std::string_view name) const;
  // The comma-separated items of all headers with this lower-case name, without blanks.
  std::vector<std::string> items(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::vector<Header> headers = {};
};

// The head of a streamed response; sent immediately.
struct StreamHead {
  std::string content_type = {};
  // Sent on an idle stream so that proxies do not time out; empty: nothing is sent.
  std::string keep_alive = {};
  std::vector<Header> headers = {};
};

// "/a%20b" to "/a b"; invalid escapes are kept.
std::string percent_decoded(std::string_view text);
// ASCII letters only.
std::string lower_case(std::string text);
// `given` if it is a valid id (1 to 128 printable ASCII characters without spaces), else a new id.
std::string request_id(std::string_view given);

}  // namespace graft::server::http
