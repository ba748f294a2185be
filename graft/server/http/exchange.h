// One request and its answer, as a handler sees them. Every function may be called from any thread.
//
// An answer is either respond(), or start_stream(), any number of write()s and end(). A client that
// goes away, or that reads so slowly that too much is waiting for it, makes the exchange gone: what
// is written from then on goes nowhere, and on_gone() says so once.

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
  // For the handler, once: a long answer need not hold a long question.
  virtual std::string take_body() = 0;
  virtual void respond(Response response) = 0;
  virtual void start_stream(StreamHead head) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;

  // Calls it when the client is gone, at once when it already is; never after the end. A later one
  // replaces an earlier one.
  virtual void on_gone(Task task) = 0;
  // Runs it on the server's own thread, one after the other.
  virtual void post(Task task) = 0;
  // A field of the access log.
  virtual void note(const std::string& name, Json value) = 0;
};

using ExchangePtr = std::shared_ptr<Exchange>;
using Handler = std::function<void(ExchangePtr exchange)>;

}  // namespace graft::server::http
