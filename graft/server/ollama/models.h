// Model descriptions in Ollama's format, for /api/tags, /api/show and /api/ps. Pure.

#pragma once

#include "graft/base/text/json.h"
#include "graft/server/models/model_info.h"

namespace graft::server::ollama {

// {format, family, families, parameter_size, quantization_level}
OrderedJson details_json(const ModelInfo& info);
// An entry of /api/tags; /api/ps adds more fields.
OrderedJson tag_json(const ModelInfo& info);
OrderedJson show_json(const ModelInfo& info);

}  // namespace graft::server::ollama
