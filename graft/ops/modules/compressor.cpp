// The compressor of DeepSeek-V4's attention, with an indexer in layers of sparse attention.

#include <string>

#include "graft/ops/modules/modules.h"
#include "graft/ops/modules/window_compressor.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
namespace {

class CompressorModule final : public Compressor {
 public:
  explicit CompressorModule(const BuildContext& context)
      : module_(context.module),
        device_(context.device),
        windows_(context.params_as<CompressorParams>(), context),
        indexer_(context.params_as<CompressorParams>().index_top_k == 0
                     ? Child<Indexer>{}
                     : context.child_as<Indexer>("indexer")) {}

  void load(WeightProvider& weights) override { windows_.load(weights); }
  void unload() override { windows_.unload(); }

  void forward(const Activation& x,
               TensorView q_latents,
               TensorView selected,
               Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    windows_.forward(x, pass);
    if (indexer_) indexer_->forward(x, q_latents, selected, pass);
  }

 private:
  std::string module_;
  Device device_;
  WindowCompressor windows_;
  Child<Indexer> indexer_;  // optional
};

// An indexer whose keys are the entries of a compressor of its own.
class CompressedIndexerModule final : public Indexer {
 public:
  explicit CompressedIndexerModule(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<IndexerParams>()),
        device_(context.device),
        windows_({.hidden_size = params_.hidden_size,
                  .head_dim = params_.head_dim,
                  .rope_dim = params_.rope_dim,
                  .rate = params_.compress_rate,
                  .overlaps = true},
                 context),
        q_b_proj_(context.child_as<Linear>("q_b_proj")),
        weights_proj_(context.child_as<Linear>("scorer.weights_proj")),
        rotary_emb_(context.child_as<Rope>("rotary_emb")),
        core_(context.primitives->make_indexer(context)) {}

  void load(WeightProvider& weights) override {
    windows_.load(weights);
    core_->load(weights);
  }
  void unload() override {
    windows_.unload();
    core_->unload();
  }

  void forward(const Activation& x,
               TensorView q_latents,
               TensorView selected,
               Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    windows_.forward(x, pass);
    const TensorView q = pass.workspace.f32({x.rows(), params_.num_heads * params_.head_dim});
    const TensorView weights = pass.workspace.f32({x.rows(), params_.num_heads});
    q_b_proj_->apply(q_latents, q, pass);
    rotary_emb_->forward(q,
                         {.num_heads = params_.num_heads,
                          .head_dim = params_.head_dim,
                          .offset = params_.head_dim - params_.rope_dim},
                         pass);
    weights_proj_->apply(x, weights, pass);
    core_->select(q, weights, selected, pass);
  }

 private:
  std::string module_;
  IndexerParams params_;
  Device device_;
  WindowCompressor windows_;
  Child<Linear> q_b_proj_;
  Child<Linear> weights_proj_;
  Child<Rope> rotary_emb_;
  std::unique_ptr<IndexerCore> core_;
};

}  // namespace

std::unique_ptr<Operator> make_compressor(const BuildContext& context) {
  return std::make_unique<CompressorModule>(context);
}

std::unique_ptr<Operator> make_compressed_indexer(const BuildContext& context) {
  return std::make_unique<CompressedIndexerModule>(context);
}

}  // namespace graft::ops
