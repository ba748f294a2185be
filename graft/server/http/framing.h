// The answer to one request as bytes of HTTP: in one piece, or piece by piece. No sockets.

#pragma once

#include <string>
#include <vector>

#include "graft/server/http/live_exchange.h"
#include "graft/server/http/message.h"

namespace graft::server::http {

struct Framing {
  bool speaks_11 = true;             // chunks are understood; HTTP/1.0 knows only the end
  bool is_head = false;              // HEAD: everything but the body
  bool keep_alive = true;            // another request may follow
  std::vector<Header> headers = {};  // of every answer to this request
  std::string ping = {};             // what the stream sends when nothing else is to be sent

  std::string whole(Response response) const;
  std::string piece(LiveExchange::Output output);

 private:
  std::string stream_head(StreamHead head);
};

}  // namespace graft::server::http
