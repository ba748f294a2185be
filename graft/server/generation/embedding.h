// Embeddings of texts, shared by the OpenAI and Ollama APIs.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "graft/server/handler_context.h"

namespace graft::server {

struct EmbeddingInput {
  std::vector<std::vector<api::TokenId>> texts = {};
  bool truncate = false;             // cut texts that are too long instead of failing
  std::size_t bytes_per_value = 12;  // of the response, estimated; as JSON numbers
  std::int64_t dimensions = 0;  // keep the first dimensions and renormalize to length 1; 0: all
  std::optional<std::int64_t> max_tokens = {};  // of a text, below the context of the model
};

struct EmbeddingResult {
  std::vector<std::vector<float>> vectors = {};
  std::int64_t num_tokens = 0;
};

// Throws ApiError 400 when a request has too many texts; call it before tokenizing them.
void check_num_texts(std::size_t num_texts, const RequestLimits& limits);

// Queues every text as a sequence and calls `done` on HandlerContext::response_workers; an
// exception of it becomes the error response. Throws ApiError 400, or 429 when too many sequences
// are queued.
void embed_async(const HandlerContext& context,
                 const http::ExchangePtr& exchange,
                 Lease lease,
                 EmbeddingInput input,
                 std::function<void(const EmbeddingResult& embedded)> done);

}  // namespace graft::server
