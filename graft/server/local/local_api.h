// OpenAI's API of one model without a network: a request is a path and a body, the answer a
// response. `graft run --batch` answers the lines of OpenAI's batch files with it.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graft/server/http/message.h"
#include "graft/server/models/loaded_model.h"
#include "graft/server/models/model_pool.h"

namespace graft::server {

class LocalApi {
 public:
  using Done = std::function<void(const http::Response& response)>;

  // Loads the only model of `pool` and waits for it. Throws Error.
  explicit LocalApi(PoolConfig pool);
  LocalApi(const LocalApi&) = delete;
  LocalApi& operator=(const LocalApi&) = delete;
  // Aborts running requests, without calling their `done`.
  ~LocalApi();

  // The paths that post() knows, with /v1.
  static const std::vector<std::string_view>& paths();

  LoadedModel& model() const;
  // Calls `done` once, on this or another thread. The limits of a server on clients and queues do
  // not apply. A streamed response is its whole text.
  void post(const std::string& path, std::string body, Done done);

 private:
  struct State;

  std::unique_ptr<State> state_;
};

}  // namespace graft::server
