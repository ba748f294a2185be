// Adapters of a layer on the CPU.

#include "graft/ops/lora.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
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

// The bits of a row depend on its adapter and its values only, see kernels/cpu/math.h.
class LoraLayerCpu final : public LoraLayer {
 public:
  explicit LoraLayerCpu(const LoraSize& size) : size_(size) {}

  void add(const LoraOperand& x,
           const LoraOperand& y,
           std::int64_t first_row,
           std::int64_t num_rows,
           Pass& pass) override {
    std::vector<Run> runs;
    std::int64_t max_rank = 0;
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const auto at = static_cast<std::size_t>(first_row + row);
      const std::int32_t adapter =
          at < pass.lora->adapters.size() ? pass.lora->adapters[at] : std::int32_t{-1};
      if (!has(adapter)) continue;
      const bool continues = !runs.empty() && runs.back().adapter == adapter &&
                             runs.back().begin + runs.back().count == row &&
                             runs.back().count < kTileRows;
      if (continues) {
        ++runs.back().count;
      } else {
        runs.push_back({.begin = row, .count = 1, .adapter = adapter});
      }
      max_rank = std::max(max_rank, of(adapter).rank);
    }
    if (runs.empty()) return;
    const Workspace::Scope scope(pass.workspace);
    // [heads, rows, rank]
    const TensorView low = pass.workspace.f32({size_.heads * num_rows, max_rank});
    shrink(x, runs, num_rows, low, pass);
    expand(y, runs, num_rows, low, pass);
  }

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

  // low = x A^T
  void shrink(const LoraOperand& x,
              const std::vector<Run>& runs,
              std::int64_t num_rows,
              TensorView low,
              Pass& pass) const {
    const std::int64_t rank_tiles = (low.cols() + kTileRank - 1) / kTileRank;
    const auto num_runs = static_cast<std::int64_t>(runs.size());
    for_each_item(pass.pool, size_.heads * num_runs * rank_tiles,
                  [&](std::int64_t /*worker*/, std::int64_t item) {
                    const std::int64_t head = item / (num_runs * rank_tiles);
                    const Run& run = runs[static_cast<std::size_t>(item / rank_tiles % num_runs)];
                    const Entry& entry = of(run.adapter);
                    const std::int64_t first = item % rank_tiles * kTileRank;
                    if (first >= entry.rank) return;
                    kernels::cpu::kernels().math.matmul(
                        {.data = x.data + run.begin * x.row_stride + head * x.head_stride,
                         .rows = run.count,
                         .stride = x.row_stride},
                        {.data = entry.a.data() + head * entry.a_head_elems + first * size_.in,
                         .rows = std::min(kTileRank, entry.rank - first),
                         .stride = size_.in},
                        size_.in, low.f32_row(head * num_rows + run.begin) + first, low.cols());
                  });
  }

  // y += low B^T
  void expand(const LoraOperand& y,
              const std::vector<Run>& runs,
              std::int64_t num_rows,
              TensorView low,
              Pass& pass) const {
    constexpr auto kOnes = [] {
      std::array<float, kTileRows> ones = {};
      ones.fill(1.0F);
      return ones;
    }();
    const std::int64_t column_tiles = (size_.out + kTileColumns - 1) / kTileColumns;
    const auto num_runs = static_cast<std::int64_t>(runs.size());
    for_each_item(pass.pool, size_.heads * num_runs * column_tiles,
                  [&](std::int64_t /*worker*/, std::int64_t item) {
                    const std::int64_t head = item / (num_runs * column_tiles);
                    const Run& run = runs[static_cast<std::size_t>(item / column_tiles % num_runs)];
                    const Entry& entry = of(run.adapter);
                    const std::int64_t first = item % column_tiles * kTileColumns;
                    kernels::cpu::kernels().math.product(
                        {.a = low.f32_row(head * num_rows + run.begin),
                         .a_row = low.cols(),
                         .b = entry.b.data() + head * entry.b_head_elems + first,
                         .ldb = size_.out,
                         .c = y.data + run.begin * y.row_stride + head * y.head_stride + first,
                         .ldc = y.row_stride,
                         .m = run.count,
                         .n = std::min(kTileColumns, size_.out - first),
                         .k = entry.rank,
                         .factor = kOnes.data()});
                  });
  }

  LoraSize size_;
  std::array<Entry, kMaxAdapters> entries_;
};

}  // namespace

std::unique_ptr<LoraLayer> make_lora_layer(const LoraSize& size) {
  return std::make_unique<LoraLayerCpu>(size);
}

}  // namespace graft::ops::cpu
