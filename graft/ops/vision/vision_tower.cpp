// CLIP's vision tower: patches → linear, class token and positions → norm → layers of attention
// among all tokens of a tile and MLP, each after a norm and with a residual.

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/profiler.h"
#include "graft/ops/vision/vision_linear.h"
#include "graft/ops/vision/vision_modules.h"
#include "graft/tensor/buffer.h"

namespace graft::ops {
namespace {

// The convolution over patches is a linear layer over their pixels: its weight [out, channels,
// rows, columns] is [out, channels * rows * columns].
class FlatWeights final : public WeightProvider {
 public:
  explicit FlatWeights(WeightProvider& weights) : weights_(weights) {}

  Weight get(std::string_view name) override {
    Weight weight = weights_.get(name);
    if (weight.shape.size() > 2) {
      const std::int64_t rows = weight.shape[0];
      const std::int64_t elems = weight.rows() * weight.cols();
      weight.shape = {rows, elems / rows};
    }
    return weight;
  }
  bool contains(std::string_view name) override { return weights_.contains(name); }
  std::vector<Weight> experts(std::string_view experts, std::string_view projection) override {
    return weights_.experts(experts, projection);
  }
  packing::Packer* packer() override { return weights_.packer(); }
  void release(const Weight& weight) override { weights_.release(weight); }
  void warn(const std::string& line) override { weights_.warn(line); }

 private:
  WeightProvider& weights_;
};

struct VisionLayer {
  std::unique_ptr<Norm> layer_norm1;
  std::unique_ptr<Linear> q_proj;
  std::unique_ptr<Linear> k_proj;
  std::unique_ptr<Linear> v_proj;
  std::unique_ptr<Linear> out_proj;
  std::unique_ptr<Norm> layer_norm2;
  std::unique_ptr<Linear> fc1;
  std::unique_ptr<Linear> fc2;

  std::vector<Operator*> all() const {
    return {layer_norm1.get(), q_proj.get(),      k_proj.get(), v_proj.get(),
            out_proj.get(),    layer_norm2.get(), fc1.get(),    fc2.get()};
  }
};

class ClipTower final : public VisionTower {
 public:
  ClipTower(const BuildContext& context, std::unique_ptr<VisionPrimitives> primitives)
      : module_(context.module),
        params_(context.params_as<VisionTowerParams>()),
        device_(context.device),
        primitives_(std::move(primitives)) {
    const std::int64_t hidden = params_.hidden_size;
    const std::int64_t inner = params_.intermediate_size;
    const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
      return make_vision_linear(context, *primitives_, name,
                                {.in_features = in, .out_features = out, .bias = true});
    };
    patch_embedding_ = make_vision_linear(
        context, *primitives_, "embeddings.patch_embedding",
        {.in_features = 3 * params_.patch_size * params_.patch_size, .out_features = hidden});
    pre_norm_ = layer_norm("pre_layrnorm");
    for (std::int64_t i = 0; i < params_.num_layers; ++i) {
      const std::string name = str("encoder.layers.", i, '.');
      VisionLayer& layer = layers_.emplace_back();
      layer.layer_norm1 = layer_norm(name + "layer_norm1");
      layer.q_proj = linear(name + "self_attn.q_proj", hidden, hidden);
      layer.k_proj = linear(name + "self_attn.k_proj", hidden, hidden);
      layer.v_proj = linear(name + "self_attn.v_proj", hidden, hidden);
      layer.out_proj = linear(name + "self_attn.out_proj", hidden, hidden);
      layer.layer_norm2 = layer_norm(name + "layer_norm2");
      layer.fc1 = linear(name + "mlp.fc1", hidden, inner);
      layer.fc2 = linear(name + "mlp.fc2", inner, hidden);
    }
  }

  void load(WeightProvider& weights) override {
    FlatWeights flat(weights);
    patch_embedding_->load(flat);
    pre_norm_->load(weights);
    for (const VisionLayer& layer : layers_) {
      for (Operator* op : layer.all())
        op->load(weights);
    }
    const std::int64_t hidden = params_.hidden_size;
    const Weight positions = weights.get(module_ + ".embeddings.position_embedding.weight");
    positions.expect_shape(params_.num_tokens(), hidden);
    positions_ = positions.decode();
    const std::vector<float> class_token =
        load_vector(weights, module_ + ".embeddings.class_embedding", hidden);
    for (std::size_t i = 0; i < class_token.size(); ++i)
      positions_[i] += class_token[i];
  }

  void unload() override {
    patch_embedding_->unload();
    pre_norm_->unload();
    for (const VisionLayer& layer : layers_) {
      for (Operator* op : layer.all())
        op->unload();
    }
    positions_ = {};
  }

  void forward(TensorView patches, TensorView features, Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t tokens = params_.num_tokens();
    GRAFT_CHECK(patches.rows() % tokens == 0, module_, ": ", patches.rows(), " rows");
    const TensorView embedded = pass.workspace.f32({patches.rows(), params_.hidden_size});
    patch_embedding_->forward(patches, embedded, pass);
    add_positions(embedded, pass);
    const TensorView x = pass.workspace.f32({patches.rows(), params_.hidden_size});
    pre_norm_->forward(embedded, x, pass);
    for (const VisionLayer& layer : layers_)
      run_layer(layer, x, pass);
    pass.devices->at(device_).gather(x, feature_rows(patches.rows() / tokens), features, pass);
  }

 private:
  std::unique_ptr<Norm> layer_norm(const std::string& name) const {
    return primitives_->make_layer_norm(str(module_, '.', name),
                                        {.size = params_.hidden_size, .eps = params_.eps}, device_);
  }

  // The row of the class token is zero before: the linear layer has no bias.
  void add_positions(TensorView x, Pass& pass) const {
    const std::int64_t tokens = params_.num_tokens();
    const TensorView positions = pass.workspace.f32({tokens, params_.hidden_size});
    const TensorView host(const_cast<float*>(positions_.data()), DType::F32,
                          {tokens, params_.hidden_size});
    pass.devices->copy(host, positions);
    for (std::int64_t row = 0; row < x.rows(); row += tokens)
      pass.devices->at(device_).add(x.slice(row, tokens), positions, pass);
  }

  void run_layer(const VisionLayer& layer, TensorView x, Pass& pass) const {
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t rows = x.rows();
    const std::int64_t hidden = params_.hidden_size;
    DeviceContext& device = pass.devices->at(device_);
    const TensorView normed = pass.workspace.f32({rows, hidden});
    const TensorView q = pass.workspace.f32({rows, hidden});
    const TensorView k = pass.workspace.f32({rows, hidden});
    const TensorView v = pass.workspace.f32({rows, hidden});
    const TensorView attended = pass.workspace.f32({rows, hidden});
    layer.layer_norm1->forward(x, normed, pass);
    layer.q_proj->forward(normed, q, pass);
    layer.k_proj->forward(normed, k, pass);
    layer.v_proj->forward(normed, v, pass);
    primitives_->attend(q, k, v, attended,
                        {.num_heads = params_.num_heads,
                         .head_dim = hidden / params_.num_heads,
                         .num_tokens = params_.num_tokens()},
                        pass);
    layer.out_proj->forward(attended, q, pass);
    device.add(x, q, pass);

    const TensorView inner = pass.workspace.f32({rows, params_.intermediate_size});
    layer.layer_norm2->forward(x, normed, pass);
    layer.fc1->forward(normed, inner, pass);
    primitives_->activate(inner, params_.activation, pass);
    layer.fc2->forward(inner, q, pass);
    device.add(x, q, pass);
  }

  std::vector<std::int32_t> feature_rows(std::int64_t num_tiles) const {
    std::vector<std::int32_t> rows;
    const std::int64_t skipped = params_.num_tokens() - params_.num_features();
    for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
      for (std::int64_t i = skipped; i < params_.num_tokens(); ++i)
        rows.push_back(static_cast<std::int32_t>(tile * params_.num_tokens() + i));
    }
    return rows;
  }

  std::string module_;
  VisionTowerParams params_;
  Device device_;
  std::unique_ptr<VisionPrimitives> primitives_;
  std::unique_ptr<Linear> patch_embedding_;
  std::unique_ptr<Norm> pre_norm_;
  std::vector<VisionLayer> layers_;
  std::vector<float> positions_;  // [tokens, hidden], the class embedding added to the first row
};

}  // namespace

std::unique_ptr<Operator> make_vision_tower(const BuildContext& context,
                                            std::unique_ptr<VisionPrimitives> primitives) {
  return std::make_unique<ClipTower>(context, std::move(primitives));
}

}  // namespace graft::ops
