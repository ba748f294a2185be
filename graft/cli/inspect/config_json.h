// A ModelConfig as JSON, with the keys of Hugging Face's config.json.

#pragma once

#include <string_view>

#include "graft/base/text/json.h"
#include "graft/models/config/model_config.h"

namespace graft::cli {

std::string_view name(models::RopeKind kind);
Json to_json(const models::ModelConfig& config);

}  // namespace graft::cli
