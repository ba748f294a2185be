#include "graft/ops/cuda/experts/expert_pairs.h"

#include <algorithm>
#include <utility>

#include "graft/kernels/cuda/moe/panel_experts.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

// Intermediate rows of the tokens that are multiplied at a time.
constexpr std::int64_t kScratchBytes = std::int64_t{1} << 30U;
constexpr std::int64_t kMinRows = 256;
constexpr std::int64_t kMaxRows = 8192;

}  // namespace

ExpertPairs::ExpertPairs(const RoutedTokens& tokens,
                         const ExpertsParams& params,
                         const kernels::cuda::ExpertEpilogue& epilogue,
                         DType dtype,
                         CudaContext& gpu,
                         Pass& pass)
    : tokens_(tokens),
      params_(params),
      epilogue_(epilogue),
      dtype_(dtype),
      tile_rows_(kernels::cuda::group_tile_rows(dtype)),
      gpu_(gpu) {
  const TensorView x = tokens.x;
  const std::int64_t step = rows_per_chunk();
  const std::int64_t num_chunks = (x.rows() + step - 1) / step;
  const TensorView counts = pass.workspace.allocate(DType::I32, {num_chunks, params_.num_experts});
  for (std::int64_t row = 0; row < x.rows(); row += step) {
    const auto index = static_cast<std::int64_t>(chunks_.size());
    chunks_.push_back(allocate(row, std::min(step, x.rows() - row), counts.slice(index, 1), pass));
    sort(chunks_.back());
  }
  const Workspace::Scope scope(gpu.staging());
  const TensorView on_host = gpu.staging().allocate(DType::I32, {num_chunks, params_.num_experts});
  gpu.start_copy_out(counts, on_host);
  if (dtype_ == DType::F16) {
    const auto bytes =
        static_cast<std::int64_t>(kernels::cuda::half_rows_bytes(x.rows(), x.cols()));
    const TensorView memory = pass.workspace.allocate(DType::U8, {bytes});
    x16_ = kernels::cuda::half_rows_at(memory.data, x.rows(), x.cols());
    kernels::cuda::to_half_rows(rows_of(x), x16_, x.rows(), x.cols(), gpu.stream());
  }
  check_cuda(cudaMemsetAsync(tokens.y.data, 0, tokens.y.bytes(), gpu.stream()), "clearing rows");
  const auto scratch_bytes = static_cast<std::int64_t>(
      kernels::cuda::expert_group_bytes(shape(), chunks_.front().num_rows, params_.top_k));
  scratch_ = pass.workspace.allocate(DType::U8, {scratch_bytes});
  gpu.finish_copies_out();
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const auto* rows = on_host.slice(static_cast<std::int64_t>(i), 1).as<std::int32_t>();
    sum_rows([&](std::size_t expert) { return std::int64_t{rows[expert]}; }, chunks_[i]);
  }
}

std::int64_t ExpertPairs::rows_per_chunk() const {
  const auto bytes = static_cast<std::int64_t>(
      kernels::cuda::expert_group_bytes(shape(), kMinRows, params_.top_k) / kMinRows);
  return std::clamp(kScratchBytes / bytes, kMinRows, kMaxRows);
}

ExpertPairs::Chunk ExpertPairs::allocate(std::int64_t first_row,
                                         std::int64_t num_rows,
                                         TensorView counts,
                                         Pass& pass) const {
  const std::int64_t pairs = num_rows * params_.top_k;
  const auto tile_bytes = static_cast<std::int64_t>(sizeof(kernels::cuda::RowTile)) *
                          kernels::cuda::max_row_tiles(pairs, params_.num_experts, tile_rows_);
  Chunk chunk = {.first_row = first_row, .num_rows = num_rows};
  chunk.groups = {.counts = counts.as<std::int32_t>(),
                  .order = pass.workspace.allocate(DType::I32, {pairs}).as<std::int32_t>(),
                  .tiles = static_cast<kernels::cuda::RowTile*>(
                      pass.workspace.allocate(DType::U8, {tile_bytes}).data)};
  return chunk;
}

void ExpertPairs::sort(const Chunk& chunk) const {
  const TensorView ids = tokens_.routing.expert_ids.slice(chunk.first_row, chunk.num_rows);
  kernels::cuda::group_pairs(ids.as<std::int32_t>(), ids.num_elems(), params_.num_experts,
                             tile_rows_, chunk.groups, gpu_.stream());
}

template <class RowsOf>
void ExpertPairs::sum_rows(const RowsOf& rows_of, Chunk& chunk) const {
  std::vector<std::int64_t> first_pair = {0};
  std::vector<std::int64_t> first_tile = {0};
  for (std::size_t e = 0; e < static_cast<std::size_t>(params_.num_experts); ++e) {
    const std::int64_t rows = rows_of(e);
    first_pair.push_back(first_pair.back() + rows);
    first_tile.push_back(first_tile.back() + (rows + tile_rows_ - 1) / tile_rows_);
  }
  chunk.first_pair = std::move(first_pair);
  chunk.first_tile = std::move(first_tile);
}

std::vector<std::int64_t> ExpertPairs::rows_by_expert() const {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(params_.num_experts), 0);
  for (const Chunk& chunk : chunks_) {
    for (std::size_t e = 0; e < rows.size(); ++e)
      rows[e] += chunk.first_pair[e + 1] - chunk.first_pair[e];
  }
  return rows;
}

void ExpertPairs::restrict_to(const ExpertMask& experts, Pass& pass) {
  if (std::ranges::all_of(experts, [](std::uint8_t is_in) { return is_in != 0; })) return;
  std::vector<std::int32_t> kept(experts.size());
  for (std::size_t e = 0; e < experts.size(); ++e)
    kept[e] = experts[e] != 0 ? static_cast<std::int32_t>(e) : -1;
  const auto size = static_cast<std::int64_t>(kept.size());
  const TensorView table = pass.workspace.allocate(DType::I32, {size});
  gpu_.copy_in(TensorView(kept.data(), DType::I32, {size}), table);
  const TensorView from = tokens_.routing.expert_ids;
  const TensorView ids = pass.workspace.allocate(DType::I32, {from.rows(), from.cols()});
  kernels::cuda::map_to_slots(from.as<std::int32_t>(), table.as<std::int32_t>(),
                              ids.as<std::int32_t>(), ids.num_elems(), gpu_.stream());
  tokens_.routing.expert_ids = ids;
  for (Chunk& chunk : chunks_) {
    sort(chunk);
    const std::vector<std::int64_t> first_pair = chunk.first_pair;
    const auto rows_of = [&](std::size_t e) {
      return experts[e] != 0 ? first_pair[e + 1] - first_pair[e] : 0;
    };
    sum_rows(rows_of, chunk);
  }
}

// A group without matrices, for sizes.
kernels::cuda::ExpertGroup ExpertPairs::shape() const {
  return {.dtype = dtype_,
          .hidden = params_.hidden_size,
          .intermediate = params_.intermediate_size,
          .epilogue = epilogue_};
}

kernels::cuda::GroupRows ExpertPairs::rows_for(const kernels::cuda::ExpertGroup& experts,
                                               const Chunk& chunk) const {
  const auto begin = static_cast<std::size_t>(experts.first_expert);
  const auto end = begin + static_cast<std::size_t>(experts.num_experts);
  kernels::cuda::F16Rows x16 = x16_;
  if (x16.values != nullptr) {
    x16.values += chunk.first_row * tokens_.x.cols();
    x16.scales += chunk.first_row;
  }
  const auto part = [&](TensorView rows) { return rows.slice(chunk.first_row, chunk.num_rows); };
  return {.rows = chunk.num_rows,
          .top_k = params_.top_k,
          .x = rows_of(part(tokens_.x)),
          .x16 = x16,
          .expert_ids = part(tokens_.routing.expert_ids).as<std::int32_t>(),
          .weights = part(tokens_.routing.weights).f32(),
          .y = rows_of(part(tokens_.y)),
          .groups = chunk.groups,
          .first_tile = chunk.first_tile[begin],
          .num_tiles = chunk.first_tile[end] - chunk.first_tile[begin],
          .first_pair = chunk.first_pair[begin],
          .num_pairs = chunk.first_pair[end] - chunk.first_pair[begin]};
}

void ExpertPairs::add(const kernels::cuda::ExpertGroup& experts) const {
  kernels::cuda::ExpertGroup group = experts;
  group.epilogue = epilogue_;
  for (const Chunk& chunk : chunks_) {
    kernels::cuda::add_expert_group(group, rows_for(group, chunk), scratch_.data, gpu_.stream());
  }
}

}  // namespace graft::ops::cuda
