// Texts to vectors, for every API that has a word for it.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graft/server/backend.h"

namespace graft::server {

struct EmbedInput {
  std::vector<std::vector<api::TokenId>> texts = {};
  bool truncate = false;        // what is too long, instead of an error
  std::int64_t dimensions = 0;  // the first so many, of length 1 again; 0: all
};

struct Embedded {
  std::vector<std::vector<float>> vectors = {};
  std::int64_t num_tokens = 0;
};

// Computes them on a thread for what takes its time, and calls `done` there; what it throws is the
// exchange's answer. Throws ApiError 429 when too many wait.
void embed_later(const HandlerContext& backend,
                 const http::ExchangePtr& exchange,
                 const Lease& lease,
                 EmbedInput input,
                 std::function<void(const Embedded& embedded)> done);

}  // namespace graft::server
