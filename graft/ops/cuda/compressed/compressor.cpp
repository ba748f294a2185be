#include <string>

#include "graft/base/error.h"
#include "graft/kernels/cuda/attention/qk_norm_rope_store.h"
#include "graft/kernels/cuda/compressed/window_compressor.h"
#include "graft/ops/cuda/attention/kv_cache.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/rms_norm.h"
#include "graft/ops/cuda/rope.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

// A child whose memory or weights the kernels read.
template <class Made, class Role>
Made& native_child(const BuildContext& context, const char* name, const char* op) {
  const Child<Role> child = context.child_as<Role>(name);
  if (!child.is_native)
    fail(context.module, ": a compressor on a GPU needs the operator ", op, " for its ", name);
  return static_cast<Made&>(*child);
}

class CompressorCuda final : public CompressorCore {
 public:
  CompressorCuda(const CompressorParams& params, const BuildContext& context)
      : module_(context.module),
        params_(params),
        device_(context.device),
        shape_{.head_dim = params.head_dim, .rate = params.rate, .overlaps = params.overlaps},
        window_cache_(native_child<KvCacheCuda, KvCache>(context, "window_cache", "cuda.kv_cache")),
        kv_cache_(native_child<KvCacheCuda, KvCache>(context, "kv_cache", "cuda.kv_cache")),
        kv_norm_(native_child<RmsNormCuda, Norm>(context, "kv_norm", "cuda.rms_norm")),
        rotary_emb_(native_child<RopeCuda, Rope>(context, "rotary_emb", "cuda.rope")) {
    if (params.head_dim > kernels::cuda::kMaxHeadSize) {
      fail(module_, ": entries of ", params.head_dim, " values, GPUs support up to ",
           kernels::cuda::kMaxHeadSize);
    }
  }

  void load(WeightProvider& weights) override {
    use_gpu(device_.index);
    const Weight bias = weights.get(module_ + ".position_bias");
    bias.expect_shape(params_.rate, params_.row_size());
    position_bias_ = upload_floats(bias.decode(), device_, weights);
  }
  void unload() override { position_bias_ = {}; }

  void store(TensorView projection, TensorView logits, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const std::int64_t block_tokens = window_cache_.block_tokens();
    const std::int32_t* slots = gpu.slots(block_tokens);
    for (const auto& [batch, first_row] : gpu.sequences(block_tokens)) {
      if (batch.num_sequences == 0) continue;
      kernels::cuda::store_windows(
          shape_, batch,
          {.projection = rows_of(projection.slice(first_row, batch.num_rows)),
           .logits = rows_of(logits.slice(first_row, batch.num_rows)),
           .bias = reinterpret_cast<const float*>(position_bias_.data()),
           .slots = slots + first_row},
          window_cache_.rows(), gpu.stream());
    }
  }

  void compress(Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t rows = pass.batch.num_tokens();
    const TensorView sums = pass.workspace.f32({rows, params_.head_dim});
    // An entry has the position of its window's first token.
    auto* positions = pass.workspace.allocate(DType::I32, {rows}).as<std::int32_t>();
    for (const auto& [batch, first_row] : gpu.sequences(window_cache_.block_tokens())) {
      if (batch.num_sequences == 0) continue;
      kernels::cuda::compress_windows(shape_, batch, window_cache_.rows(),
                                      rows_of(sums.slice(first_row, batch.num_rows)),
                                      positions + first_row, gpu.stream());
    }
    const kernels::cuda::HeadSpan span = {.x = rows_of(sums),
                                          .num_heads = 1,
                                          .size = params_.head_dim,
                                          .head_stride = params_.head_dim,
                                          .norm = kv_norm_.weight(),
                                          .eps = kv_norm_.eps(),
                                          .rotates = true,
                                          .rotate_from = params_.head_dim - params_.rope_dim,
                                          .cache_col = 0};
    kernels::cuda::qk_norm_rope_store({&span, 1},
                                      {.rows = rows,
                                       .rotation = rotary_emb_.rotation(),
                                       .positions = positions,
                                       .cache = kv_cache_.rows(),
                                       .slots = gpu.slots(kv_cache_.block_tokens())},
                                      gpu.stream());
  }

 private:
  std::string module_;
  CompressorParams params_;
  Device device_;
  kernels::cuda::CompressorShape shape_;
  KvCacheCuda& window_cache_;
  KvCacheCuda& kv_cache_;
  RmsNormCuda& kv_norm_;
  RopeCuda& rotary_emb_;
  Buffer position_bias_;  // [rate, row_size] f32
};

}  // namespace

std::unique_ptr<CompressorCore> make_compressor_core(const CompressorParams& params,
                                                     const BuildContext& context) {
  return std::make_unique<CompressorCuda>(params, context);
}

}  // namespace graft::ops::cuda
