// Low-rank additions of adapters: y += B (A x) for the rows that have an adapter.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// The matrices of one adapter for one layer, which may have heads with matrices of their own.
struct LoraEntry {
  const float* a = nullptr;       // [heads or 1, rank, in], with the scale; null: no such adapter
  const float* b = nullptr;       // [heads or 1, rank, out]
  std::int64_t a_head_elems = 0;  // distance of heads; 0: one matrix for all
  std::int64_t b_head_elems = 0;
  std::int64_t rank = 0;
};

// Row r of head h starts at data + r * row_stride + h * head_stride.
struct LoraRowsView {
  float* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
};

struct LoraJob {
  const LoraEntry* entries = nullptr;      // by adapter
  const std::int32_t* adapters = nullptr;  // [rows]; negative: none
  std::int64_t rows = 0;
  std::int64_t heads = 1;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t max_rank = 0;  // of all entries
};

// low[rows, heads, max_rank] is scratch memory.
void add_lora(
    const LoraJob& job, const LoraRowsView& x, const LoraRowsView& y, float* low, Stream stream);

}  // namespace graft::kernels::cuda
