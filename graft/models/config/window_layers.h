// Which layers have the sliding window (ModelConfig::window_layers), for families that mix layers
// with and without it. GGUF files store a period: the last layer of each period has none.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/formats/gguf/gguf_fields.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

std::vector<bool> periodic_windows(std::int64_t period, std::int64_t num_layers);

// From "layer_types"; absent: by period.
std::vector<bool> read_window_layers(const formats::Fields& fields,
                                     std::int64_t num_layers,
                                     std::int64_t period);

// Nothing for a model without a window. `default_period` is llama.cpp's for files without the key.
void read_gguf_windows(const formats::GgufFields& gguf,
                       std::int64_t default_period,
                       ModelConfig& config);
void write_gguf_windows(const ModelConfig& config,
                        std::int64_t default_period,
                        formats::GgufKeyWriter& out);

}  // namespace graft::models
