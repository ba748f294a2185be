// What vision towers need beside linear layers: layer norm, activations, and attention without a
// mask among the rows of each tile of a picture.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

struct LayerNormWeights {
  const float* weight = nullptr;  // [cols]
  const float* bias = nullptr;    // [cols]
};
// y[rows, cols] = (x - mean) / sqrt(variance + eps) * weight + bias, by row; y may be x.
void layer_norm(ConstRows x,
                const LayerNormWeights& weights,
                Rows y,
                std::int64_t rows,
                std::int64_t cols,
                float eps,
                Stream stream);

// QuickGelu: x * sigmoid(1.702 x). GeluTanh: GELU in its tanh approximation.
enum class VisionActivation : std::uint8_t { QuickGelu, Gelu, GeluTanh };
// x[rows, cols] = activation(x)
void vision_activate(
    Rows x, VisionActivation activation, std::int64_t rows, std::int64_t cols, Stream stream);

inline constexpr std::int64_t kMaxVisionHeadDim = 128;

// q, k, v and out are [num_tiles * num_tokens, num_heads * head_dim]. head_dim is at most
// kMaxVisionHeadDim. Sums are f32.
struct VisionAttention {
  ConstRows q;
  ConstRows k;
  ConstRows v;
  Rows out;
  std::int64_t num_tiles = 0;
  std::int64_t num_tokens = 0;  // of each tile
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
};
void vision_attend(const VisionAttention& job, Stream stream);

}  // namespace graft::kernels::cuda
