// The requests of POST /api/embed, /api/embeddings and /api/show, parsed and validated. Pure: JSON
// in, values out.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graft/base/text/json.h"

namespace graft::server::ollama {

struct EmbedRequest {
  std::string model = {};
  std::vector<std::string> texts = {};
  bool truncate = true;
  std::int64_t dimensions = 0;               // 0: all
  std::optional<std::int64_t> num_ctx = {};  // max tokens of a text
  std::optional<double> keep_alive_seconds = {};
};

// All throw ApiError 400 that names the field. /api/embed accepts a list of texts, the legacy
// /api/embeddings one.
EmbedRequest read_embed(const OrderedJson& body, bool is_legacy);
// The name of the model.
std::string read_show(const OrderedJson& body);

}  // namespace graft::server::ollama
