// Embeddings of texts, shared by the OpenAI and Ollama APIs.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graft/server/handler_context.h"

namespace graft::server {

struct EmbeddingInput {
  std::vector<std::vector<api::TokenId>> texts = {};
  bool truncate = false;        // cut texts that are too long instead of failing
  std::int64_t dimensions = 0;  // keep the first dimensions and renormalize to length 1; 0: all
};

struct EmbeddingResult {
  std::vector<std::vector<float>> vectors = {};
  std::int64_t num_tokens = 0;
};

// Computes the embeddings on HandlerContext::blocking_workers and calls `done` there; an exception
// becomes the error response. Throws ApiError 400, or 429 when too many sequences are queued.
void embed_async(const HandlerContext& context,
                 const http::ExchangePtr& exchange,
                 const Lease& lease,
                 EmbeddingInput input,
                 std::function<void(const EmbeddingResult& embedded)> done);

}  // namespace graft::server
