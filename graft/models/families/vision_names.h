// The names of the tensors of vision towers and their projectors. They do not depend on the family
// of the text model.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft::models {

// Whether a module's weight is of the vision tower, the projector or the newline embedding.
bool is_vision_weight(std::string_view hf_name);

// The names under which Hugging Face checkpoints may store such a weight, the usual one first:
// "vision_tower.vision_model.x", and with "model." before or without "vision_model".
std::vector<std::string> stored_vision_names(std::string_view hf_name);

// The names in llama.cpp's mmproj files, "v.blk.3.attn_q.weight" and "mm.0.bias": two for the
// linear layers of an MLP, whose names older files have swapped. Empty: they have none.
std::vector<std::string> gguf_names_of_vision(std::string_view hf_name);

// Whether a tensor is of such a file.
bool is_gguf_vision_tensor(std::string_view gguf_name);

}  // namespace graft::models
