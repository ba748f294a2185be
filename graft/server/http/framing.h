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

  std::string response_text(Response response) const;
  std::string stream_text(LiveExchange::Output output);

 private:
  std::string stream_head(StreamHead head);
};

}  // namespace graft::server::http
