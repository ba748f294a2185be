#include "graft/kernels/cuda/compressed/attended_rows.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/row_position.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

struct AttendedJob {
  AttendedShape shape;
  AttentionBatch batch;
  const std::byte* tokens;
  const std::byte* entries;
  std::int64_t row_bytes;
  const std::int32_t* selected;
  SelectedRows to;
  std::int64_t stride;  // slots per row
  std::int64_t first_row;
  std::int64_t count;
};

__device__ std::int64_t num_entries(const AttendedShape& shape, std::int64_t position) {
  if (shape.rate == 0) return 0;
  const std::int64_t all = (position + 1) / shape.rate;
  return shape.top_k > 0 && all > shape.top_k ? shape.top_k : all;
}

__device__ std::int64_t num_tokens(const AttendedShape& shape, std::int64_t position) {
  return position + 1 < shape.window ? position + 1 : shape.window;
}

// The i-th row that the row `row` at `at` attends to.
const __device__ std::byte* attended_row(const AttendedJob& job,
                                         const RowPosition& at,
                                         std::int64_t row,
                                         std::int64_t i) {
  const std::int64_t entries = num_entries(job.shape, at.position);
  if (i < entries) {
    const std::int64_t entry =
        job.selected == nullptr ? i : job.selected[row * job.shape.top_k + i];
    const std::int64_t position = (entry + 1) * job.shape.rate - 1;
    return job.entries + slot_of(job.batch, at.sequence, position) * job.row_bytes;
  }
  const std::int64_t position =
      at.position + 1 - num_tokens(job.shape, at.position) + (i - entries);
  return job.tokens + slot_of(job.batch, at.sequence, position) * job.row_bytes;
}

template <class Vector>
__device__ void copy_row(const std::byte* from, std::byte* to, std::int64_t bytes) {
  const auto count = bytes / static_cast<std::int64_t>(sizeof(Vector));
  for (std::int64_t v = threadIdx.x % kWarpSize; v < count; v += kWarpSize)
    reinterpret_cast<Vector*>(to)[v] = reinterpret_cast<const Vector*>(from)[v];
}

// Grid: (rows, groups of slots). Warp: one slot.
__global__ void __launch_bounds__(kThreads) gather_attended_kernel(AttendedJob job) {
  begin_kernel();
  const std::int64_t row = job.first_row + blockIdx.x;
  const RowPosition at = find_row(job.batch, row);
  const std::int64_t total =
      at.sequence < 0 ? 0
                      : num_entries(job.shape, at.position) + num_tokens(job.shape, at.position);
  if (blockIdx.y == 0 && threadIdx.x == 0) {
    job.to.arrays[blockIdx.x] = static_cast<std::int32_t>(blockIdx.x);
    job.to.arrays[job.count + blockIdx.x] = at.sequence < 0 ? 0 : 1;
    job.to.arrays[2 * job.count + blockIdx.x] = static_cast<std::int32_t>(total);
  }
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * kWarps + threadIdx.x / kWarpSize;
  if (i >= total) return;
  const std::byte* from = attended_row(job, at, row, i);
  std::byte* to =
      static_cast<std::byte*>(job.to.data) + (blockIdx.x * job.stride + i) * job.row_bytes;
  if (job.row_bytes % sizeof(uint4) == 0) {
    copy_row<uint4>(from, to, job.row_bytes);
  } else {
    copy_row<std::uint16_t>(from, to, job.row_bytes);
  }
}

}  // namespace

std::int64_t max_attended(const AttendedShape& shape, const AttentionBatch& batch) {
  std::int64_t entries = shape.rate == 0 ? 0 : batch.max_context / shape.rate;
  if (shape.top_k > 0) entries = std::min(entries, shape.top_k);
  return entries + std::min(batch.max_context, shape.window);
}

void gather_attended(const AttendedShape& shape,
                     const AttentionBatch& batch,
                     const AttendedCaches& caches,
                     const std::int32_t* selected,
                     const SelectedRows& to,
                     RowRange rows,
                     Stream stream) {
  GRAFT_CHECK((selected == nullptr) == (shape.top_k == 0), "selection of ", shape.top_k,
              " entries");
  GRAFT_CHECK(shape.rate == 0 || (caches.entries.dtype == caches.tokens.dtype &&
                                  caches.entries.row_elems() == caches.tokens.row_elems()),
              "entries of ", caches.entries.row_elems(), " x ", name(caches.entries.dtype),
              ", tokens of ", caches.tokens.row_elems(), " x ", name(caches.tokens.dtype));
  const std::int64_t stride = max_attended(shape, batch);
  const AttendedJob job = {.shape = shape,
                           .batch = batch,
                           .tokens = static_cast<const std::byte*>(caches.tokens.data),
                           .entries = static_cast<const std::byte*>(caches.entries.data),
                           .row_bytes = static_cast<std::int64_t>(
                               bytes_of(caches.tokens.dtype, caches.tokens.row_elems())),
                           .selected = selected,
                           .to = to,
                           .stride = stride,
                           .first_row = rows.first,
                           .count = rows.count};
  const dim3 grid(static_cast<unsigned>(rows.count), blocks_for(stride, kWarps));
  launch("gather_attended", gather_attended_kernel, {grid, kThreads}, stream, job);
}

}  // namespace graft::kernels::cuda
