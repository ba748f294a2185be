// Which layers have the gated delta rule instead of attention (DeltaNetConfig::layers). Files
// without "layer_types" and GGUF files store a period: the last layer of each period has attention.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/formats/gguf/gguf_fields.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

// "linear_*" and the layers.
void read_delta_net(const formats::Fields& fields, ModelConfig& config);
// "ssm.*", with llama.cpp's meaning of the keys, and the layers.
void read_gguf_delta_net(const formats::GgufFields& gguf, ModelConfig& config);
void write_gguf_delta_net(const ModelConfig& config, formats::GgufKeyWriter& out);

}  // namespace graft::models
