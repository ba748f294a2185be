// The rotary embedding of a config.json, in its classic and its newer form.

#pragma once

#include "graft/formats/huggingface/fields.h"
#include "graft/formats/huggingface/hf_families.h"
#include "graft/formats/model_config.h"

namespace graft::formats {

// Sets rope and rotary_dim. Needs head_dim, mla and max_position_embeddings to be there.
void read_rope(const Fields& fields, const FamilyDefaults& family, ModelConfig& config);

}  // namespace graft::formats
