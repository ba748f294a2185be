// Which layers have an indexer of their own (IndexerConfig::layers). The others use the selection
// of the last layer before them that has one.

#pragma once

#include "graft/formats/gguf/gguf_fields.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

// "indexer_types", or the schedule of "index_topk_pattern", "index_topk_freq" and
// "index_skip_topk_offset". Call after num_hidden_layers is read.
void read_indexer_layers(const formats::Fields& fields, ModelConfig& config);
// "attention.indexer.types". Without the key, layers without the tensors have no indexer.
void read_gguf_indexer_layers(const formats::GgufFields& gguf, ModelConfig& config);
void write_gguf_indexer_layers(const ModelConfig& config, formats::GgufKeyWriter& out);

}  // namespace graft::models
