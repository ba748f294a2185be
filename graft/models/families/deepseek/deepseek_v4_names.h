// The names of DeepSeek-V4's tensors.

#pragma once

#include <string>
#include <string_view>

namespace graft::models {

// Published checkpoints, and those that Transformers saves, name tensors otherwise than the modules
// of Transformers: "layers.0.attn.wkv.weight" is "model.layers.0.self_attn.kv_proj.weight". Any
// other name is returned as it is.
std::string v4_module_name(std::string_view stored);

}  // namespace graft::models
