#include "graft/kernels/cuda/moe/experts.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/formats/panels.h"
#include "graft/kernels/cuda/moe/panel_experts_mma.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/experts/device_epilogue.h"
#include "graft/ops/cuda/experts/device_experts.h"
#include "graft/ops/cuda/experts/expert_pairs.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/experts/moe_common.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

// From this many pairs per expert on, dequantizing all weights to F16 once costs less than decoding
// them in every tile of the GEMM.
constexpr std::int64_t kMinPairsToUnpack = 96;
// The same for panels, which are multiplied in tiles of up to 32 rows, or of up to 64 with wgmma.
constexpr std::int64_t kMinPairsToUnpackPanels = 40;
constexpr std::int64_t kMinPairsToUnpackWgmma = 512;
constexpr std::int64_t kUnpackedBytes = std::int64_t{256} << 20U;
// A long prefill is processed in chunks: each token takes top_k rows of every intermediate buffer.
constexpr std::int64_t kTokensPerChunk = 4096;

class ExpertsCuda final : public Experts {
 public:
  explicit ExpertsCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<ExpertsParams>()),
        device_(context.device),
        precision_(precision_kwarg(context)) {}

  void load(WeightProvider& weights) override {
    use_gpu(device_.index);
    epilogue_.load(weights, module_, params_, device_);
    ExpertWeights experts = load_experts(weights, module_, params_);
    load_column_orders(experts, weights);
    const std::array loaded = {std::move(experts.gate_proj), std::move(experts.up_proj),
                               std::move(experts.down_proj)};
    const std::array<DeviceWeight*, 3> to = {&gate_, &up_, &down_};
    const kernels::cuda::Layout layout = common_layout(loaded);
    for (std::size_t i = 0; i < loaded.size(); ++i) {
      *to[i] = DeviceWeight(loaded[i], device_, weights, layout);
      for (const Weight& weight : loaded[i])
        weights.release(weight);
    }
  }
  void unload() override {
    epilogue_.unload();
    column_orders_ = {};
    ones_ = {};
    gate_ = {};
    up_ = {};
    down_ = {};
  }

  ActivationFormat input_format(std::int64_t rows) const override {
    if (has_column_orders()) return ActivationFormat::F32;
    return cuda::input_format(gate_.matrix(), precision_, rows);
  }

  void forward(const Activation& activation, Routing routing, TensorView y, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    if (has_column_orders()) return forward_ordered({activation.f32, routing, y}, gpu, pass);
    forward_rows(activation, routing, y, gpu, pass);
  }

 private:
  bool has_column_orders() const { return column_orders_.size() > 0; }
  // A row of x for each pair in the order of its expert, each with one expert of weight 1.
  std::int64_t top_k() const { return has_column_orders() ? 1 : params_.top_k; }

  // Uploads the order in which each expert reads x, where one is not in order.
  void load_column_orders(const ExpertWeights& experts, WeightProvider& weights) {
    std::vector<std::int32_t> orders;
    bool has_order = false;
    for (std::size_t i = 0; i < experts.gate_proj.size(); ++i) {
      const auto& gate = experts.gate_proj[i].column_order;
      const auto& up = experts.up_proj[i].column_order;
      const bool is_same = gate == up || (gate != nullptr && up != nullptr && *gate == *up);
      if (!is_same) {
        fail(experts.up_proj[i].name, ": columns in another order than those of gate_proj (GPTQ's ",
             "desc_act) are supported on CPUs only");
      }
      has_order = has_order || gate != nullptr;
      for (std::int32_t col = 0; col < params_.hidden_size; ++col)
        orders.push_back(gate != nullptr ? (*gate)[static_cast<std::size_t>(col)] : col);
    }
    if (!has_order) return;
    column_orders_ = upload_indices(orders, device_, weights);
    const std::vector<float> ones(static_cast<std::size_t>(ordered_tokens() * params_.top_k), 1.0F);
    ones_ = upload_floats(ones, device_, weights);
  }

  std::int64_t ordered_tokens() const {
    return std::max<std::int64_t>(1, kTokensPerChunk / params_.top_k);
  }

  void forward_ordered(const RoutedTokens& tokens, CudaContext& gpu, Pass& pass) {
    for (std::int64_t row = 0; row < tokens.x.rows(); row += ordered_tokens()) {
      const Workspace::Scope scope(pass.workspace);
      const std::int64_t count = std::min(ordered_tokens(), tokens.x.rows() - row);
      const std::int64_t num_pairs = count * params_.top_k;
      const TensorView ids = tokens.routing.expert_ids.slice(row, count);
      const TensorView x = pass.workspace.f32({num_pairs, params_.hidden_size});
      const TensorView results = pass.workspace.f32({num_pairs, params_.hidden_size});
      kernels::cuda::gather_pair_columns(
          {.x = rows_of(tokens.x.slice(row, count)),
           .expert_ids = ids.as<std::int32_t>(),
           .orders = reinterpret_cast<const std::int32_t*>(column_orders_.data()),
           .y = rows_of(x)},
          num_pairs, params_.top_k, params_.hidden_size, gpu.stream());
      const Routing one = {.expert_ids = TensorView(ids.data, DType::I32, {num_pairs, 1}),
                           .weights = TensorView(ones_.data(), DType::F32, {num_pairs, 1})};
      forward_rows(x, one, results, gpu, pass);
      kernels::cuda::sum_pairs({.rows = count,
                                .x = {},
                                .expert_ids = ids.as<std::int32_t>(),
                                .weights = tokens.routing.weights.slice(row, count).f32(),
                                .y = rows_of(tokens.y.slice(row, count))},
                               results.f32(), params_.top_k, params_.hidden_size, gpu.stream());
    }
  }

  void forward_rows(
      const Activation& activation, Routing routing, TensorView y, CudaContext& gpu, Pass& pass) {
    const TensorView x = activation.f32;
    if (is_unpacked(x.rows(), pass.phase)) return forward_unpacked({x, routing, y}, gpu, pass);
    const kernels::cuda::Q8Rows int8 = q8_rows_of(activation.int8);
    const kernels::cuda::PanelRows f16 = panel_rows_of(activation.f16, x.rows());
    for (std::int64_t row = 0; row < x.rows(); row += kTokensPerChunk) {
      const std::int64_t count = std::min(kTokensPerChunk, x.rows() - row);
      const bool is_all = count == x.rows();
      const Workspace::Scope scope(pass.workspace);
      const kernels::cuda::RoutedRows routed = {
          .rows = count,
          .x = rows_of(x.slice(row, count)),
          .x_q8 = activation.has_int8() && is_all ? &int8 : nullptr,
          .expert_ids = routing.expert_ids.slice(row, count).as<std::int32_t>(),
          .weights = routing.weights.slice(row, count).f32(),
          .y = rows_of(y.slice(row, count))};
      const auto scratch = [&](std::size_t bytes) {
        return pass.workspace.allocate(DType::U8, {static_cast<std::int64_t>(bytes)}).data;
      };
      if (has_panels()) {
        const kernels::cuda::PanelExpertsJob job = panel_job();
        kernels::cuda::panel_experts_mma(
            job, routed, activation.has_f16() && is_all ? &f16 : nullptr,
            scratch(kernels::cuda::panel_experts_mma_bytes(job, count)), gpu.stream());
      } else {
        const kernels::cuda::ExpertsJob job = this->job();
        kernels::cuda::experts(job, routed, scratch(kernels::cuda::experts_bytes(job, count)),
                               gpu.stream());
      }
    }
  }

  // Only in prefill: the host waits for the routing, which a captured graph cannot.
  bool is_unpacked(std::int64_t rows, Phase phase) const {
    const DType dtype = gate_.matrix().dtype;
    return phase == Phase::Prefill && precision_ == Precision::Fast && dtype != DType::F32 &&
           dtype != DType::F16 && rows * top_k() >= min_pairs_to_unpack() * params_.num_experts &&
           is_contiguous(gate_) && is_contiguous(up_) && is_contiguous(down_) &&
           kernels::cuda::has_gemm_mma() && kernels::cuda::can_use_gemm_mma(params_.hidden_size) &&
           kernels::cuda::can_use_gemm_mma(params_.intermediate_size);
  }
  std::int64_t min_pairs_to_unpack() const {
    if (!has_panels()) return kMinPairsToUnpack;
    return kernels::cuda::has_panel_experts_wgmma(panel_job()) ? kMinPairsToUnpackWgmma
                                                               : kMinPairsToUnpackPanels;
  }
  // Whether the rows of an expert follow those of the one before without padding.
  bool is_contiguous(const DeviceWeight& stack) const {
    if (has_panels()) return true;
    const auto rows = static_cast<std::size_t>(stack.matrix().rows / params_.num_experts);
    return stack.matrix_bytes() == rows * stack.matrix().row_bytes();
  }

  // A group of experts at a time: dequantizes their weights to F16, multiplies, adds to y.
  void forward_unpacked(const RoutedTokens& tokens, CudaContext& gpu, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t elements = params_.hidden_size * params_.intermediate_size;
    const std::int64_t group_size =
        std::clamp(kUnpackedBytes / (3 * elements * 2), std::int64_t{1}, params_.num_experts);
    const TensorView unpacked = pass.workspace.allocate(DType::F16, {3 * group_size, elements});
    ExpertsParams params = params_;
    params.top_k = top_k();
    const ExpertPairs pairs(tokens, params, epilogue_.get(), DType::F16, gpu, pass);
    for (std::int64_t first = 0; first < params_.num_experts; first += group_size) {
      const std::int64_t count = std::min(group_size, params_.num_experts - first);
      const auto decode = [&](const DeviceWeight& stack, std::int64_t rows, std::int64_t place) {
        const TensorView to = unpacked.slice(place * group_size, count);
        decode_experts(stack, {.begin = first, .end = first + count}, rows,
                       to.as<kernels::cuda::Half>(), gpu);
        return static_cast<const void*>(to.data);
      };
      pairs.add({.dtype = DType::F16,
                 .first_expert = first,
                 .num_experts = count,
                 .hidden = params_.hidden_size,
                 .intermediate = params_.intermediate_size,
                 .gate = decode(gate_, params_.intermediate_size, 0),
                 .up = decode(up_, params_.intermediate_size, 1),
                 .down = decode(down_, params_.hidden_size, 2)});
    }
  }

  // `rows`: of one expert.
  static void decode_experts(const DeviceWeight& stack,
                             ExpertRange experts,
                             std::int64_t rows,
                             kernels::cuda::Half* out,
                             CudaContext& gpu) {
    const kernels::cuda::Matrix& matrix = stack.matrix();
    if (matrix.layout == kernels::cuda::Layout::Rows) {
      return kernels::cuda::decode_rows_f16(matrix, experts.begin * rows, experts.size() * rows,
                                            out, gpu.stream());
    }
    const std::size_t offset = static_cast<std::size_t>(experts.begin) * stack.matrix_bytes();
    kernels::cuda::unpack_panels({.dtype = matrix.dtype,
                                  .panels = static_cast<const std::byte*>(matrix.data) + offset,
                                  .num_matrices = experts.size(),
                                  .rows = rows,
                                  .cols = matrix.cols},
                                 out, gpu.stream());
  }

  // Panels only if the kernels take those of all projections.
  kernels::cuda::Layout common_layout(std::span<const std::vector<Weight>> projections) const {
    const bool is_panels = std::ranges::all_of(projections, [&](const std::vector<Weight>& stack) {
      return weight_layout(stack.front(), precision_) == kernels::cuda::Layout::Panels;
    });
    const bool is_pair = projections[0].front().dtype == projections[1].front().dtype;
    return is_panels && is_pair ? kernels::cuda::Layout::Panels : kernels::cuda::Layout::Rows;
  }
  bool has_panels() const { return gate_.matrix().layout == kernels::cuda::Layout::Panels; }

  kernels::cuda::PanelExpertsJob panel_job() const {
    const auto panels = [](const DeviceWeight& weight) {
      return kernels::cuda::PanelMatrices{
          .dtype = weight.matrix().dtype,
          .panels = static_cast<const std::byte*>(weight.matrix().data),
          .matrix_bytes = weight.matrix_bytes()};
    };
    return {.num_matrices = params_.num_experts,
            .top_k = top_k(),
            .hidden = params_.hidden_size,
            .intermediate = params_.intermediate_size,
            .gate = panels(gate_),
            .up = panels(up_),
            .down = panels(down_),
            .epilogue = epilogue_.get()};
  }

  kernels::cuda::ExpertsJob job() const {
    const auto stack = [](const DeviceWeight& weight) {
      return kernels::cuda::ExpertStack{.matrix = weight.matrix(),
                                        .matrix_bytes = weight.matrix_bytes()};
    };
    const bool is_fast = precision_ == Precision::Fast;
    const bool is_exact = !is_fast || gate_.matrix().dtype == DType::F32;
    return {
        .num_experts = params_.num_experts,
        .top_k = top_k(),
        .hidden = params_.hidden_size,
        .intermediate = params_.intermediate_size,
        .gate = stack(gate_),
        .up = stack(up_),
        .down = stack(down_),
        .use_int8 = is_fast,
        .arithmetic = is_exact ? kernels::cuda::Arithmetic::F32 : kernels::cuda::Arithmetic::F16,
        .epilogue = epilogue_.get()};
  }

  std::string module_;
  ExpertsParams params_;
  Device device_;
  Precision precision_;
  DeviceEpilogue epilogue_;
  Buffer column_orders_;  // [experts, hidden] i32; empty: columns are in order
  Buffer ones_;           // f32, a weight for each pair of ordered_tokens()
  DeviceWeight gate_;
  DeviceWeight up_;
  DeviceWeight down_;
};

}  // namespace

std::unique_ptr<Operator> make_experts_cuda(const BuildContext& context) {
  if (context.host_op != nullptr) return make_hybrid_experts_cuda(context);
  return std::make_unique<ExpertsCuda>(context);
}

}  // namespace graft::ops::cuda
