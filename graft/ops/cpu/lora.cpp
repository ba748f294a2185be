// Adapters of a layer on the CPU.

#include "graft/ops/cpu/lora.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "graft/kernels/cpu/math.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"

namespace graft::ops::cpu {
namespace {

constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileRank = 16;
constexpr std::int64_t kTileColumns = 512;

// Consecutive rows of one adapter.
struct Run {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int32_t adapter = -1;
};

// The additions of one layer to rows of a pass.
struct Job;

// The bits of a row depend on its adapter and its values only, see kernels/cpu/math.h.
class LoraLayerCpu final : public LoraLayer {
 public:
  explicit LoraLayerCpu(const LoraSize& size) : size_(size) {}

  void add(const LoraOperand& x,
           const LoraOperand& y,
           std::int64_t first_row,
           std::int64_t num_rows,
           Pass& pass) override;

  // Its scratch memory is in the pass's workspace.
  Job job(const LoraOperand& x,
          const LoraOperand& y,
          std::int64_t first_row,
          std::int64_t num_rows,
          Pass& pass) const;

  std::int64_t num_heads() const { return size_.heads; }
  std::int64_t rank_tiles(std::int64_t max_rank) const {
    return (max_rank + kTileRank - 1) / kTileRank;
  }
  std::int64_t column_tiles() const { return (size_.out + kTileColumns - 1) / kTileColumns; }
  // low = x A^T, of a run of one head and kTileRank components.
  void shrink(const Job& job, const Run& run, std::int64_t head, std::int64_t tile) const;
  // y += low B^T, of a run of one head and kTileColumns columns.
  void expand(const Job& job, const Run& run, std::int64_t head, std::int64_t tile) const;

 private:
  struct Entry {
    std::int64_t rank = 0;
    std::vector<float> a;           // [heads or 1, rank, in], multiplied by the scale
    std::vector<float> b;           // [heads or 1, rank, out]
    std::int64_t a_head_elems = 0;  // 0: all heads share it
    std::int64_t b_head_elems = 0;
  };

  const Entry& of(std::int32_t adapter) const {
    return entries_[static_cast<std::size_t>(adapter)];
  }

  void store(std::int32_t adapter, const LoraMatrices& matrices) override {
    Entry entry = {.rank = matrices.rank, .a = matrices.a, .b = {}};
    for (float& value : entry.a)
      value *= matrices.scale;
    const std::int64_t a_elems = matrices.rank * size_.in;
    const std::int64_t b_elems = matrices.rank * size_.out;
    const std::int64_t b_heads = static_cast<std::int64_t>(matrices.b.size()) / b_elems;
    if (static_cast<std::int64_t>(matrices.a.size()) > a_elems) entry.a_head_elems = a_elems;
    if (b_heads > 1) entry.b_head_elems = b_elems;
    entry.b.resize(matrices.b.size());
    for (std::int64_t head = 0; head < b_heads; ++head) {
      const float* from = matrices.b.data() + head * b_elems;
      float* to = entry.b.data() + head * b_elems;
      for (std::int64_t out = 0; out < size_.out; ++out) {
        for (std::int64_t i = 0; i < matrices.rank; ++i)
          to[i * size_.out + out] = from[out * matrices.rank + i];
      }
    }
    entries_[static_cast<std::size_t>(adapter)] = std::move(entry);
  }

  void drop(std::int32_t adapter) override { entries_[static_cast<std::size_t>(adapter)] = {}; }

  LoraSize size_;
  std::array<Entry, kMaxAdapters> entries_;
};

struct Job {
  const LoraLayerCpu* layer = nullptr;
  LoraOperand x = {};
  LoraOperand y = {};
  std::vector<Run> runs = {};
  std::int64_t num_rows = 0;
  TensorView low = {};  // [heads * num_rows, max rank of the runs]

  std::int64_t num_parts() const {
    return layer->num_heads() * static_cast<std::int64_t>(runs.size());
  }
};

Job LoraLayerCpu::job(const LoraOperand& x,
                      const LoraOperand& y,
                      std::int64_t first_row,
                      std::int64_t num_rows,
                      Pass& pass) const {
  Job job = {.layer = this, .x = x, .y = y, .num_rows = num_rows};
  std::int64_t max_rank = 0;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const auto at = static_cast<std::size_t>(first_row + row);
    const std::int32_t adapter =
        at < pass.lora->adapters.size() ? pass.lora->adapters[at] : std::int32_t{-1};
    if (!has(adapter)) continue;
    const bool continues = !job.runs.empty() && job.runs.back().adapter == adapter &&
                           job.runs.back().begin + job.runs.back().count == row &&
                           job.runs.back().count < kTileRows;
    if (continues) {
      ++job.runs.back().count;
    } else {
      job.runs.push_back({.begin = row, .count = 1, .adapter = adapter});
    }
    max_rank = std::max(max_rank, of(adapter).rank);
  }
  if (!job.runs.empty()) job.low = pass.workspace.f32({size_.heads * num_rows, max_rank});
  return job;
}

void LoraLayerCpu::shrink(const Job& job,
                          const Run& run,
                          std::int64_t head,
                          std::int64_t tile) const {
  const Entry& entry = of(run.adapter);
  const std::int64_t first = tile * kTileRank;
  if (first >= entry.rank) return;
  kernels::cpu::kernels().math.matmul(
      {.data = job.x.data + run.begin * job.x.row_stride + head * job.x.head_stride,
       .rows = run.count,
       .stride = job.x.row_stride},
      {.data = entry.a.data() + head * entry.a_head_elems + first * size_.in,
       .rows = std::min(kTileRank, entry.rank - first),
       .stride = size_.in},
      size_.in, job.low.f32_row(head * job.num_rows + run.begin) + first, job.low.cols());
}

void LoraLayerCpu::expand(const Job& job,
                          const Run& run,
                          std::int64_t head,
                          std::int64_t tile) const {
  constexpr auto kOnes = [] {
    std::array<float, kTileRows> ones = {};
    ones.fill(1.0F);
    return ones;
  }();
  const Entry& entry = of(run.adapter);
  const std::int64_t first = tile * kTileColumns;
  kernels::cpu::kernels().math.product(
      {.a = job.low.f32_row(head * job.num_rows + run.begin),
       .a_row = job.low.cols(),
       .b = entry.b.data() + head * entry.b_head_elems + first,
       .ldb = size_.out,
       .c = job.y.data + run.begin * job.y.row_stride + head * job.y.head_stride + first,
       .ldc = job.y.row_stride,
       .m = run.count,
       .n = std::min(kTileColumns, size_.out - first),
       .k = entry.rank,
       .factor = kOnes.data()});
}

// Calls body(job, run, head, tile) in one parallel loop; num_tiles(job) tiles for each run and
// head.
template <class NumTiles, class Body>
void for_each_tile(std::span<const Job> jobs,
                   const NumTiles& num_tiles,
                   Pass& pass,
                   const Body& body) {
  std::int64_t num_items = 0;
  for (const Job& job : jobs)
    num_items += job.num_parts() * num_tiles(job);
  for_each_item(pass.pool, num_items, [&](std::int64_t /*worker*/, std::int64_t item) {
    const Job* job = jobs.data();
    while (item >= job->num_parts() * num_tiles(*job)) {
      item -= job->num_parts() * num_tiles(*job);
      ++job;
    }
    const std::int64_t part = item / num_tiles(*job);
    const auto num_runs = static_cast<std::int64_t>(job->runs.size());
    body(*job, job->runs[static_cast<std::size_t>(part % num_runs)], part / num_runs,
         item % num_tiles(*job));
  });
}

void run_jobs(std::span<const Job> jobs, Pass& pass) {
  const auto rank_tiles = [](const Job& job) { return job.layer->rank_tiles(job.low.cols()); };
  const auto column_tiles = [](const Job& job) { return job.layer->column_tiles(); };
  const auto shrink = [](const Job& job, const Run& run, std::int64_t head, std::int64_t tile) {
    job.layer->shrink(job, run, head, tile);
  };
  const auto expand = [](const Job& job, const Run& run, std::int64_t head, std::int64_t tile) {
    job.layer->expand(job, run, head, tile);
  };
  std::int64_t num_parts = 0;
  for (const Job& job : jobs)
    num_parts += job.num_parts();
  // With enough runs for all threads, one loop instead of two: threads wait once.
  if (num_parts >= 2 * static_cast<std::int64_t>(pass.pool.num_threads())) {
    const auto one = [](const Job&) { return std::int64_t{1}; };
    return for_each_tile(jobs, one, pass,
                         [&](const Job& job, const Run& run, std::int64_t head, std::int64_t) {
                           for (std::int64_t tile = 0; tile < rank_tiles(job); ++tile)
                             shrink(job, run, head, tile);
                           for (std::int64_t tile = 0; tile < column_tiles(job); ++tile)
                             expand(job, run, head, tile);
                         });
  }
  for_each_tile(jobs, rank_tiles, pass, shrink);
  for_each_tile(jobs, column_tiles, pass, expand);
}

void LoraLayerCpu::add(const LoraOperand& x,
                       const LoraOperand& y,
                       std::int64_t first_row,
                       std::int64_t num_rows,
                       Pass& pass) {
  const Workspace::Scope scope(pass.workspace);
  const Job one = job(x, y, first_row, num_rows, pass);
  if (!one.runs.empty()) run_jobs({&one, 1}, pass);
}

}  // namespace

void add_lora_group(TensorView x, std::span<const LoraAddition> additions, Pass& pass) {
  const Workspace::Scope scope(pass.workspace);
  std::vector<Job> jobs;
  for (const LoraAddition& addition : additions) {
    const auto& layer = static_cast<const LoraLayerCpu&>(*addition.layer);
    Job job =
        layer.job({.data = x.f32(), .row_stride = x.cols()},
                  {.data = addition.y.f32(), .row_stride = addition.y.cols()}, 0, x.rows(), pass);
    if (!job.runs.empty()) jobs.push_back(std::move(job));
  }
  if (!jobs.empty()) run_jobs(jobs, pass);
}

std::unique_ptr<LoraLayer> make_lora_layer(const LoraSize& size) {
  return std::make_unique<LoraLayerCpu>(size);
}

}  // namespace graft::ops::cpu
