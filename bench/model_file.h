// GGUF files of real shapes for benchmarks: the speed of reading and encoding does not depend on
// what a model has learned.

#pragma once

#include <cstdint>
#include <filesystem>

#include "graft/tensor/dtype.h"

namespace graft::bench {

// A Llama of the given size with a vocabulary of `vocab_size` made-up tokens.
struct ModelShape {
  std::int64_t hidden_size = 2048;
  std::int64_t intermediate_size = 8192;
  std::int64_t num_layers = 16;
  std::int64_t num_heads = 32;
  std::int64_t num_key_value_heads = 8;
  std::int64_t vocab_size = 128256;
  DType dtype = DType::F16;
};

// Normally distributed weights.
void write_model(const std::filesystem::path& path, const ModelShape& shape);

}  // namespace graft::bench
