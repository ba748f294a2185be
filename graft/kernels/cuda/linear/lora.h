// Low-rank additions of adapters: y += scale * B (A x) for the rows that have an adapter. Layers
// with the same x share the launches.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

enum class LoraType : std::uint32_t { F32, F16, BF16 };

// The matrices of one adapter for one layer, which may have heads with matrices of their own.
struct LoraEntry {
  const void* a = nullptr;        // [heads or 1, rank, in]; null: no such adapter
  const void* b = nullptr;        // [heads or 1, rank, out]
  std::int64_t a_head_elems = 0;  // distance of heads; 0: one matrix for all
  std::int64_t b_head_elems = 0;
  std::int64_t rank = 0;
  float scale = 1.0F;
  LoraType type = LoraType::F32;  // of both
};

// Row r of head h starts at data + r * row_stride + h * head_stride.
struct LoraRowsView {
  float* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
};

struct LoraJob {
  const LoraEntry* entries = nullptr;  // by adapter
  std::int64_t out = 0;
  std::int64_t max_rank = 0;  // of all entries; 0: the job is skipped
  LoraRowsView y = {};
  float* low = nullptr;  // [rows, heads, max_rank] scratch memory
};

inline constexpr std::size_t kMaxLoraJobs = 4;

struct LoraGroup {
  LoraJob jobs[kMaxLoraJobs] = {};
  std::int64_t num_jobs = 0;
  const std::int32_t* adapters = nullptr;  // [rows]; negative: none
  std::int64_t rows = 0;
  std::int64_t heads = 1;
  std::int64_t in = 0;
  LoraRowsView x = {};
};

void add_lora(const LoraGroup& group, Stream stream);

}  // namespace graft::kernels::cuda
