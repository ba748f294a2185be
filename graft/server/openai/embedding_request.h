// The request of POST /v1/embeddings, parsed and validated. Pure: JSON in, values out.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"

namespace graft::server::openai {

struct EmbeddingRequest {
  std::string model = {};  // empty: the server's first model
  std::vector<api::Prompt> input = {};
  bool is_base64 = false;
  std::int64_t dimensions = 0;  // 0: all
};

// Throws ApiError 400 that names the field.
EmbeddingRequest read_embedding_request(const OrderedJson& body);

}  // namespace graft::server::openai
