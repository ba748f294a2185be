// A ModelConfig as JSON, with the keys of Hugging Face's config.json.

#pragma once

#include <string_view>

#include "graft/base/text/json.h"
#include "graft/formats/model_config.h"

namespace graft::cli {

std::string_view name(formats::RopeKind kind);
Json to_json(const formats::ModelConfig& config);

}  // namespace graft::cli
