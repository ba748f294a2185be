// Serializes the response to one request as HTTP/1.1 bytes, complete or as a stream. No sockets.

#pragma once

#include <string>
#include <vector>

#include "graft/server/http/live_exchange.h"
#include "graft/server/http/message.h"

namespace graft::server::http {

struct Framing {
  bool is_http11 = true;             // HTTP/1.0 has no chunked encoding: the close ends a stream
  bool is_head = false;              // HEAD: no body
  bool keep_alive = true;            // another request may follow on this connection
  std::vector<Header> headers = {};  // added to every response to this request
  std::string keep_alive_text = {};  // sent on an idle stream; empty: nothing
  bool has_head = false;             // the head was written
  std::size_t num_probed = 0;        // bytes of the head that a probe has sent

  // The head of a complete response; has_body() says whether its body follows.
  std::string response_head(const Response& response);
  bool has_body(const Response& response) const { return response.status != 204 && !is_head; }
  std::string stream_text(LiveExchange::Output output);
  // Bytes that any continuation of the response starts with: the begin of the status line, or a
  // leading zero of the next chunk size. A client that has closed the connection answers them with
  // a reset; one that has only closed its sending side reads them as part of the response.
  std::string probe_text();

 private:
  std::string stream_head(StreamHead head);
  // The head without the bytes that a probe has sent.
  std::string unsent(const std::string& head);
};

}  // namespace graft::server::http
