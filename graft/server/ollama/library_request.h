// The requests of POST /api/pull, /api/create, /api/copy and DELETE /api/delete, parsed and
// validated. Pure: JSON in, values out.

#pragma once

#include <string>

#include "graft/base/text/json.h"
#include "graft/server/library/model_library.h"

namespace graft::server::ollama {

struct PullRequest {
  std::string model = {};
  bool is_stream = true;
};

struct NewModelRequest {
  CreateRequest create = {};
  bool is_stream = true;
};

struct CopyRequest {
  std::string source = {};
  std::string destination = {};
};

// All throw ApiError 400 that names the field; unknown fields are refused.
PullRequest read_pull(const OrderedJson& body);
NewModelRequest read_create(const OrderedJson& body);
CopyRequest read_copy(const OrderedJson& body);
// The name of the model.
std::string read_delete(const OrderedJson& body);

// Whether a text is a template of Go's text/template, as Ollama has them, rather than Jinja.
bool is_go_template(const std::string& text);

}  // namespace graft::server::ollama
