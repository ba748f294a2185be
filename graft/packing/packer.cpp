#include "graft/packing/packer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "graft/packing/pack_panel.h"
#include "graft/packing/panel_layout.h"
#include "graft/tensor/buffer.h"
#include "graft/tensor/shared_bytes.h"

namespace graft::packing {
namespace {

using Slice = PackedMatrix::Slice;

// Bytes of packed matrices in memory on their way to the cache file: work for all threads.
constexpr std::int64_t kMaxPackedBytes = std::int64_t{128} << 20U;

// One panel to pack: rows [first_row, first_row + 16) of a matrix.
struct PanelJob {
  const StoredMatrix* matrix = nullptr;
  std::int64_t first_row = 0;
  std::byte* panel = nullptr;
};

void run(const PanelJob& job, const quant::CodecTable& codecs) {
  const StoredMatrix& matrix = *job.matrix;
  const auto stride = static_cast<std::int64_t>(bytes_of(matrix.dtype, matrix.cols));
  quant::StoredRows rows = {.data = matrix.data + job.first_row * stride,
                            .rows = std::min(kPanelRows, matrix.rows - job.first_row),
                            .cols = matrix.cols,
                            .stride = stride};
  std::array<const float*, kPanelRows> scales = {};
  if (matrix.scale_layout != nullptr) {
    const quant::ScaleLayout& layout = *matrix.scale_layout;
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      scales[static_cast<std::size_t>(row)] =
          matrix.scales + layout.scale_row(job.first_row + row) * layout.scale_cols;
    }
    rows.scales = scales.data();
    rows.cols_per_scale = layout.tile_cols;
  }
  pack_panel(matrix.dtype, rows, codecs, job.panel);
}

void run_all(std::span<const PanelJob> jobs, const quant::CodecTable& codecs, ThreadPool* pool) {
  if (pool != nullptr) {
    pool->parallel_for_local(jobs.size(), [&](std::size_t i) { run(jobs[i], codecs); });
  } else {
    std::ranges::for_each(jobs, [&](const PanelJob& job) { run(job, codecs); });
  }
}

// The rows that a node's threads multiply: its share of a loop over steps of kSliceRows rows.
Slice slice_of_node(const ThreadPool* pool, std::size_t node, std::int64_t rows) {
  if (pool == nullptr) return {.begin = 0, .end = rows};
  const std::int64_t num_steps = (rows + kSliceRows - 1) / kSliceRows;
  const auto [begin, end] = pool->node_range(node, static_cast<std::size_t>(num_steps));
  return {.begin = static_cast<std::int64_t>(begin) * kSliceRows,
          .end = std::min(rows, static_cast<std::int64_t>(end) * kSliceRows)};
}

std::int64_t slice_bytes(const StoredMatrix& matrix, const Slice& slice) {
  return packed_bytes(matrix.dtype, slice.end - slice.begin, matrix.cols);
}

// The jobs of a slice, whose panels are written from `to` on.
void add_jobs(const StoredMatrix& matrix,
              const Slice& slice,
              std::byte* to,
              std::vector<PanelJob>& jobs) {
  for (std::int64_t row = slice.begin; row < slice.end; row += kPanelRows) {
    jobs.push_back({.matrix = &matrix, .first_row = row, .panel = to});
    to += panel_bytes(packed_format(matrix.dtype), matrix.cols);
  }
}

// Matrices to pack and where.
struct PackingJobs {
  std::vector<const StoredMatrix*> matrices = {};
  std::vector<std::vector<Slice>> slices = {};  // by matrix
  std::vector<PanelJob> panels = {};            // node by node
};

// Adds the slices of one node, in one allocation.
std::shared_ptr<std::byte> add_node(const ThreadPool* pool,
                                    std::size_t node,
                                    Arena& arena,
                                    PackingJobs& jobs) {
  std::vector<Slice> slices;
  std::int64_t bytes = 0;
  for (const StoredMatrix* matrix : jobs.matrices) {
    slices.push_back(slice_of_node(pool, node, matrix->rows));
    bytes += slice_bytes(*matrix, slices.back());
  }
  if (bytes == 0) return nullptr;
  std::shared_ptr<std::byte> memory = arena.allocate(static_cast<std::size_t>(bytes));
  std::byte* next = memory.get();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].begin == slices[i].end) continue;
    slices[i].panels = next;
    jobs.slices[i].push_back(slices[i]);
    add_jobs(*jobs.matrices[i], slices[i], next, jobs.panels);
    next += slice_bytes(*jobs.matrices[i], slices[i]);
  }
  return memory;
}

PackedMatrix make_matrix(const StoredMatrix& stored,
                         std::vector<Slice> slices,
                         std::shared_ptr<const void> owner) {
  return {stored.dtype, stored.rows, stored.cols, std::move(slices), std::move(owner)};
}

// One slice of all rows.
PackedMatrix make_matrix(const StoredMatrix& stored, const CachedPanels& cached) {
  return {
      stored.dtype,        stored.rows,
      stored.cols,         {{.begin = 0, .end = stored.rows, .panels = cached.panels.bytes.data()}},
      cached.panels.owner, cached.disk};
}

}  // namespace

std::vector<PackedMatrix> Packer::pack(std::span<const StoredMatrix> matrices,
                                       const quant::CodecTable& codecs) {
  std::vector<PackedMatrix> packed(matrices.size());
  std::vector<Job> missing;  // not in the cache
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const CachedPanels cached = cache_ == nullptr ? CachedPanels{} : cache_->find(matrices[i]);
    if (cached.panels.bytes.empty()) {
      missing.emplace_back(&matrices[i], &packed[i]);
    } else {
      packed[i] = make_matrix(matrices[i], cached);
    }
  }
  if (cache_ != nullptr && cache_->is_from_disk()) {
    pack_to_disk(missing, codecs);
  } else {
    pack_in_memory(missing, codecs);
  }
  return packed;
}

void Packer::pack_in_memory(std::span<const Job> missing, const quant::CodecTable& codecs) {
  PackingJobs jobs;
  for (const auto& [stored, result] : missing)
    jobs.matrices.push_back(stored);
  jobs.slices.resize(missing.size());
  const ThreadPool* nodes = cache_ == nullptr ? pool_ : nullptr;
  const auto memory = std::make_shared<std::vector<std::shared_ptr<std::byte>>>();
  const std::size_t num_nodes = nodes == nullptr ? 1 : nodes->num_nodes();
  if (arenas_.size() < num_nodes) arenas_.resize(num_nodes);
  for (std::size_t node = 0; node < num_nodes; ++node)
    memory->push_back(add_node(nodes, node, arenas_[node], jobs));
  run_all(jobs.panels, codecs, pool_);

  for (std::size_t m = 0; m < missing.size(); ++m) {
    const auto& [stored, result] = missing[m];
    *result = make_matrix(*stored, std::move(jobs.slices[m]), memory);
    if (cache_ == nullptr) continue;
    cache_->add(*stored,
                {.bytes = {result->slices().front().panels, result->bytes()}, .owner = memory});
  }
}

void Packer::pack_to_disk(std::span<const Job> missing, const quant::CodecTable& codecs) {
  while (!missing.empty()) {
    std::vector<std::int64_t> offsets;
    std::int64_t bytes = 0;
    for (const auto& [stored, result] : missing) {
      if (bytes >= kMaxPackedBytes) break;
      offsets.push_back(bytes);
      bytes += packed_bytes(stored->dtype, stored->rows, stored->cols);
    }
    const Buffer buffer(static_cast<std::size_t>(bytes));
    std::vector<PanelJob> jobs;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const StoredMatrix& stored = *missing[i].first;
      add_jobs(stored, {.begin = 0, .end = stored.rows}, buffer.data() + offsets[i], jobs);
    }
    run_all(jobs, codecs, pool_);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const auto& [stored, result] = missing[i];
      const auto size =
          static_cast<std::size_t>(packed_bytes(stored->dtype, stored->rows, stored->cols));
      *result =
          make_matrix(*stored, cache_->add(*stored, {.bytes = {buffer.data() + offsets[i], size}}));
    }
    missing = missing.subspan(offsets.size());
  }
}

}  // namespace graft::packing
