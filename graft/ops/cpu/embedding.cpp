#include <string>
#include <utility>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

class EmbeddingCpu final : public Embedding {
 public:
  EmbeddingCpu(std::string module, const EmbeddingParams& params)
      : module_(std::move(module)), params_(params) {}

  void load(WeightProvider& weights) override {
    table_ = weights.get(module_ + ".weight");
    table_.expect_shape(params_.vocab_size, params_.hidden_size);
  }
  void unload() override { table_ = {}; }

  void forward(std::span<const std::int32_t> token_ids, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, kCpu, module_);
    const auto num_tokens = static_cast<std::int64_t>(token_ids.size());
    for_each_item(pass.pool, num_tokens, [&](std::int64_t /*worker*/, std::int64_t token) {
      const std::int32_t id = token_ids[static_cast<std::size_t>(token)];
      GRAFT_CHECK(id >= 0 && id < params_.vocab_size, "token ", id, " of a vocabulary of ",
                  params_.vocab_size);
      table_.decode_rows(id, 1, y.f32_row(token));
      if (params_.scale != 1.0F)
        kernels::cpu::kernels().math.scale(y.f32_row(token), y.cols(), params_.scale);
    });
  }

 private:
  std::string module_;
  EmbeddingParams params_;
  Weight table_;  // [vocab, hidden]
};

}  // namespace

std::unique_ptr<Operator> make_embedding_cpu(const BuildContext& context) {
  return std::make_unique<EmbeddingCpu>(context.module, context.params_as<EmbeddingParams>());
}

}  // namespace graft::ops::cpu
