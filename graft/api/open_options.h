// How an LLM opens its model: devices, rules and load options.

#pragma once

#include "graft/llm.h"
#include "graft/models/open_model.h"

namespace graft::api {

// Throws Error for a device that does not exist and a rule file that cannot be read. Without a rule
// file and a device, the rules are made for the model and the memory that is free then.
models::OpenOptions open_options(const LlmConfig& config);

}  // namespace graft::api
