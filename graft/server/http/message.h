// A request as it came and an answer as it goes. There are no sockets here: handlers and their
// tests see only this.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft::server::http {

struct Header {
  std::string name;  // of a request: in lower case
  std::string value;
};

struct Request {
  std::string method = {};
  std::string path = {};   // decoded, without the query
  std::string query = {};  // as it came
  std::vector<Header> headers = {};
  std::string body = {};
  std::string remote = {};  // the client's address
  std::string id = {};      // x-request-id: the client's, or one of ours

  // The first of that name (in lower case), or empty.
  std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::vector<Header> headers = {};
};

// What comes in pieces. Its headers go out at once.
struct StreamHead {
  std::string content_type = {};
  // Sent after a while without anything else, so that nobody on the way takes the connection for
  // dead; empty: nothing is sent.
  std::string keep_alive = {};
  std::vector<Header> headers = {};
};

// "/a%20b" to "/a b"; what is no %XX stays as it is.
std::string percent_decoded(std::string_view text);
// Of ASCII.
std::string lower_case(std::string text);
// The id that a client gave, or a new one where it is empty or could not stand in a header and a
// log.
std::string request_id(std::string_view given);

}  // namespace graft::server::http
