// /api/tags, /api/show, /api/ps: the models in Ollama's words. Pure.

#pragma once

#include "graft/base/text/json.h"
#include "graft/server/models/model_info.h"

namespace graft::server::ollama {

// {format, family, families, parameter_size, quantization_level}
OrderedJson details_json(const ModelInfo& info);
// An entry of /api/tags and, with more, of /api/ps.
OrderedJson tag_json(const ModelInfo& info);
OrderedJson show_json(const ModelInfo& info);

}  // namespace graft::server::ollama
