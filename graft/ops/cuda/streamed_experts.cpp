#include "graft/ops/cuda/streamed_experts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/text/str.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cuda/cuda_context.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/streamed_weights.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/device_bridge.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

// The memory of the ring: enough to copy ahead while the GPU computes attention.
constexpr std::size_t kRingBytes = std::size_t{768} << 20U;
// Intermediate rows of the tokens that are multiplied at a time.
constexpr std::int64_t kScratchBytes = std::int64_t{1} << 30U;
// From this share of used experts on, the next layer's experts are copied before its router ran.
constexpr double kCopyAheadShare = 0.9;

// The pairs of some consecutive tokens.
struct Chunk {
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  kernels::cuda::PairGroups groups = {};
  // [num_experts + 1]: the first pair and the first tile of each expert.
  std::vector<std::int64_t> first_pair = {};
  std::vector<std::int64_t> first_tile = {};
};

class StreamedExperts final : public Experts {
 public:
  explicit StreamedExperts(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<ExpertsParams>()),
        device_(context.device),
        dtype_(precision_kwarg(context) == Precision::Fast ? DType::F16 : DType::F32),
        stream_from_(context.int_kwarg(stream_from_kwarg())),
        cpu_experts_(dynamic_cast<Experts&>(*context.decode_op)),
        bridge_(for_caller_on(context.device, cpu_experts_, context.decode_device, Role::Experts)),
        on_cpu_(dynamic_cast<Experts&>(*bridge_)) {}

  void load(WeightProvider& weights) override {
    const ExpertStore store = cpu_experts_.host_store();
    const std::string obstacle = StreamedWeights::obstacle(store);
    if (!obstacle.empty())
      return weights.warn(str("prefill computes the experts on the CPU: ", obstacle));
    const std::string problem = weights_.load(store, device_, weights);
    if (!problem.empty()) {
      weights.warn(str("the system does not lock the memory of the experts (", problem,
                       "): prefill copies them to the GPU slowly"));
    }
    // Operators are loaded in the order of the layers.
    std::shared_ptr<void>& kept =
        weights.kept_while_loading(str("streamed experts on ", to_string(device_)));
    if (kept != nullptr) (*std::static_pointer_cast<StreamedExperts*>(kept))->next_ = this;
    kept = std::make_shared<StreamedExperts*>(this);
  }

  void unload() override {
    // Experts may be on their way in advance.
    use_gpu(device_.index);
    cudaDeviceSynchronize();
    weights_.unload();
    next_ = nullptr;
  }

  void begin(const Activation& x, Routing routing, Pass& pass) override {
    if (!is_streamed(x.rows())) on_cpu_.begin(x, routing, pass);
  }
  void end(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    if (is_streamed(x.rows())) return forward_streamed(x.f32, routing, y, pass);
    on_cpu_.end(x, routing, y, pass);
  }
  void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    begin(x, routing, pass);
    end(x, routing, y, pass);
  }

 private:
  bool is_streamed(std::int64_t rows) const { return !weights_.empty() && rows >= stream_from_; }

  void forward_streamed(TensorView x, Routing routing, TensorView y, Pass& pass) {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    ExpertRing& ring = gpu.expert_ring();
    ring.reserve(weights_.copies().group_bytes(),
                 std::min(kRingBytes, weights_.layer_bytes() + weights_.copies().group_bytes()));
    std::vector<Chunk> chunks = sort_pairs(routing, gpu, pass);
    kernels::cuda::F16Rows x16;
    if (dtype_ == DType::F16) {
      const TensorView memory = pass.workspace.allocate(
          DType::U8,
          {static_cast<std::int64_t>(kernels::cuda::half_rows_bytes(x.rows(), x.cols()))});
      x16 = kernels::cuda::half_rows_at(memory.data, x.rows(), x.cols());
      kernels::cuda::to_half_rows(rows_of(x), x16, x.rows(), x.cols(), gpu.stream());
    }
    check_cuda(cudaMemsetAsync(y.data, 0, y.bytes(), gpu.stream()), "clearing rows");
    add_groups({.x = x, .x16 = x16, .routing = routing, .y = y, .chunks = chunks}, gpu, pass);
  }

  struct Work {
    TensorView x;
    kernels::cuda::F16Rows x16;
    Routing routing;
    TensorView y;
    const std::vector<Chunk>& chunks;
  };

  // Copies group after group, as far ahead as the ring has slots, and computes each when it has
  // arrived.
  void add_groups(const Work& work, CudaContext& gpu, Pass& pass) {
    const std::vector<std::uint8_t> is_used = used_experts(work.chunks);
    const std::vector<std::int64_t> groups = used_groups(is_used);
    ExpertRing& ring = gpu.expert_ring();
    ring.drop_unless([&](ExpertRing::Key key) {
      return key == weights_.key(key.group) && std::ranges::binary_search(groups, key.group);
    });
    const TensorView unpacked = pass.workspace.allocate(dtype_, {weights_.group_elements(), 1});
    const TensorView scratch = pass.workspace.allocate(
        DType::U8, {static_cast<std::int64_t>(kernels::cuda::expert_group_bytes(
                       shape(), work.chunks.front().num_rows, params_.top_k))});
    std::size_t num_started = 0;
    for (const std::int64_t group : groups) {
      for (; num_started < groups.size(); ++num_started) {
        if (ring.holds(weights_.key(groups[num_started]))) continue;
        if (!ring.can_start()) break;
        weights_.start(groups[num_started], is_used, ring);
      }
      const std::byte* slot = ring.wait_for(weights_.key(group), gpu.compute_stream());
      const kernels::cuda::ExpertGroup experts =
          weights_.unpack(group, is_used, slot, unpacked, gpu.stream());
      ring.release(weights_.key(group), gpu.compute_stream());
      for (const Chunk& chunk : work.chunks)
        kernels::cuda::add_expert_group(experts, rows_for(experts, chunk, work), scratch.data,
                                        gpu.stream());
    }
    const auto num_used = static_cast<double>(std::ranges::count(is_used, std::uint8_t{1}));
    const bool uses_most = num_used >= kCopyAheadShare * static_cast<double>(is_used.size());
    if (next_ != nullptr && uses_most) next_->weights_.start_ahead(ring);
  }

  // The group without matrices.
  kernels::cuda::ExpertGroup shape() const {
    return {
        .dtype = dtype_, .hidden = params_.hidden_size, .intermediate = params_.intermediate_size};
  }

  kernels::cuda::GroupRows rows_for(const kernels::cuda::ExpertGroup& experts,
                                    const Chunk& chunk,
                                    const Work& work) const {
    const auto begin = static_cast<std::size_t>(experts.first_expert);
    const auto end = begin + static_cast<std::size_t>(experts.num_experts);
    kernels::cuda::F16Rows x16 = work.x16;
    if (x16.values != nullptr) {
      x16.values += chunk.first_row * work.x.cols();
      x16.scales += chunk.first_row;
    }
    const auto part = [&](TensorView rows) { return rows.slice(chunk.first_row, chunk.num_rows); };
    return {.rows = chunk.num_rows,
            .top_k = params_.top_k,
            .x = rows_of(part(work.x)),
            .x16 = x16,
            .expert_ids = part(work.routing.expert_ids).as<std::int32_t>(),
            .weights = part(work.routing.weights).f32(),
            .y = rows_of(part(work.y)),
            .groups = chunk.groups,
            .first_tile = chunk.first_tile[begin],
            .num_tiles = chunk.first_tile[end] - chunk.first_tile[begin],
            .first_pair = chunk.first_pair[begin],
            .num_pairs = chunk.first_pair[end] - chunk.first_pair[begin]};
  }

  std::int64_t rows_per_chunk() const {
    const auto bytes = static_cast<std::int64_t>(
        kernels::cuda::expert_group_bytes(shape(), 256, params_.top_k) / 256);
    return std::clamp(kScratchBytes / bytes, std::int64_t{256}, std::int64_t{8192});
  }

  // Sorts the pairs by expert on the GPU and waits for the number of pairs of each expert.
  std::vector<Chunk> sort_pairs(Routing routing, CudaContext& gpu, Pass& pass) {
    const std::int64_t rows = routing.expert_ids.rows();
    const std::int64_t tile_rows = kernels::cuda::group_tile_rows(dtype_);
    const std::int64_t step = rows_per_chunk();
    const std::int64_t num_chunks = (rows + step - 1) / step;
    const TensorView counts =
        pass.workspace.allocate(DType::I32, {num_chunks, params_.num_experts});
    std::vector<Chunk> chunks;
    for (std::int64_t row = 0; row < rows; row += step) {
      Chunk& chunk = chunks.emplace_back();
      chunk.first_row = row;
      chunk.num_rows = std::min(step, rows - row);
      const std::int64_t pairs = chunk.num_rows * params_.top_k;
      const auto tile_bytes = static_cast<std::int64_t>(sizeof(kernels::cuda::RowTile)) *
                              kernels::cuda::max_row_tiles(pairs, params_.num_experts, tile_rows);
      const TensorView count = counts.slice(static_cast<std::int64_t>(chunks.size()) - 1, 1);
      chunk.groups = {.counts = count.as<std::int32_t>(),
                      .order = pass.workspace.allocate(DType::I32, {pairs}).as<std::int32_t>(),
                      .tiles = static_cast<kernels::cuda::RowTile*>(
                          pass.workspace.allocate(DType::U8, {tile_bytes}).data)};
      kernels::cuda::group_pairs(routing.expert_ids.slice(row, chunk.num_rows).as<std::int32_t>(),
                                 pairs, params_.num_experts, tile_rows, chunk.groups, gpu.stream());
    }
    const Workspace::Scope scope(gpu.staging());
    const TensorView on_host =
        gpu.staging().allocate(DType::I32, {num_chunks, params_.num_experts});
    gpu.start_copy_out(counts, on_host);
    gpu.finish_copies_out();
    for (std::size_t i = 0; i < chunks.size(); ++i)
      sum_counts(on_host.slice(static_cast<std::int64_t>(i), 1).as<std::int32_t>(), tile_rows,
                 chunks[i]);
    return chunks;
  }

  void sum_counts(const std::int32_t* counts, std::int64_t tile_rows, Chunk& chunk) const {
    chunk.first_pair = {0};
    chunk.first_tile = {0};
    for (std::int64_t e = 0; e < params_.num_experts; ++e) {
      chunk.first_pair.push_back(chunk.first_pair.back() + counts[e]);
      chunk.first_tile.push_back(chunk.first_tile.back() + (counts[e] + tile_rows - 1) / tile_rows);
    }
  }

  std::vector<std::uint8_t> used_experts(const std::vector<Chunk>& chunks) const {
    std::vector<std::uint8_t> is_used(static_cast<std::size_t>(params_.num_experts), 0);
    for (const Chunk& chunk : chunks) {
      for (std::size_t e = 0; e < is_used.size(); ++e)
        if (chunk.first_pair[e + 1] > chunk.first_pair[e]) is_used[e] = 1;
    }
    return is_used;
  }

  // Ascending.
  std::vector<std::int64_t> used_groups(const std::vector<std::uint8_t>& is_used) const {
    std::vector<std::int64_t> groups;
    for (std::int64_t group = 0; group < weights_.copies().num_groups(); ++group) {
      const ExpertRange experts = weights_.copies().experts_of(group);
      const auto begin = is_used.begin() + experts.begin;
      if (std::any_of(begin, begin + experts.size(), [](std::uint8_t used) { return used != 0; }))
        groups.push_back(group);
    }
    return groups;
  }

  std::string module_;
  ExpertsParams params_;
  Device device_;
  DType dtype_;               // of the weights in products
  std::int64_t stream_from_;  // rows of a pass
  Experts& cpu_experts_;      // holds the weights
  std::unique_ptr<Operator> bridge_;
  Experts& on_cpu_;  // the bridge to cpu_experts_
  StreamedWeights weights_;
  StreamedExperts* next_ = nullptr;  // of the next layer
};

}  // namespace

std::unique_ptr<Operator> make_streamed_experts(const BuildContext& context) {
  return std::make_unique<StreamedExperts>(context);
}

}  // namespace graft::ops::cuda
