// The requests of POST /v1/rerank (Jina, Cohere) and /v1/score (vLLM), parsed and validated. Pure:
// JSON in, values out.

#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"

namespace graft::server::openai {

struct RerankRequest {
  std::string model = {};  // empty: the server's first model
  std::string query = {};
  std::vector<std::string> documents = {};
  std::size_t top_n = 0;  // results
  bool return_documents = true;
};

struct ScoreRequest {
  std::string model = {};
  std::vector<std::string> texts = {};
  std::vector<std::pair<std::size_t, std::size_t>> pairs = {};  // indices into texts
};

// Both throw ApiError 400 that names the field.
RerankRequest read_rerank_request(const OrderedJson& body);
ScoreRequest read_score_request(const OrderedJson& body);

}  // namespace graft::server::openai
