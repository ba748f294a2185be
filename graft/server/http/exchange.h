// One request and its response, as a handler sees them. Thread-safe.
//
// A response is either respond(), or start_stream(), any number of write() calls and end(). The
// writer of a long stream waits with when_writable() for a client that reads slowly: write() never
// blocks and never drops. The exchange is disconnected when the client closes the connection or
// does not read for too long; later writes are dropped, and the on_disconnect() callback runs once.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "graft/base/text/json.h"
#include "graft/server/http/message.h"

namespace graft::server::http {

class Exchange {
 public:
  using Task = std::function<void()>;

  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  // Moves the body out, so that it is not kept for the duration of the response. Call once.
  virtual std::string take_body() = 0;
  virtual void respond(Response response) = 0;
  virtual void start_stream(StreamHead head) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;
  // While too many written bytes are unsent: keeps the task, runs it once when they have been taken
  // or the client is disconnected, and returns true. Otherwise returns false.
  virtual bool when_writable(Task task) = 0;

  // Sets the callback for a disconnect; runs it immediately when already disconnected, never after
  // the response has ended. Replaces an earlier callback.
  virtual void on_disconnect(Task task) = 0;
  // Adds a field to the access-log line of this exchange.
  virtual void log_field(const std::string& name, Json value) = 0;
};

using ExchangePtr = std::shared_ptr<Exchange>;
using Handler = std::function<void(ExchangePtr exchange)>;

}  // namespace graft::server::http
