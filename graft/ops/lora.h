// Low-rank additions of adapters (LoRA) to linear layers: y += scale * B (A x) for the rows of
// sequences with an adapter. The base weights stay as they are, and other rows are not touched.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/ops/pass.h"

namespace graft::ops {

// Max rank of an adapter, of kernels and files.
inline constexpr std::int64_t kMaxLoraRank = 512;
// Adapters that a model can have at once.
inline constexpr std::int32_t kMaxAdapters = 64;

// The adapter of each row of a pass with adapters, by row of the batch or of its logits.
struct LoraRows {
  std::vector<std::int32_t> adapters;    // -1: none. Rows past the end have none
  bool are_logit_rows = false;           // rows of batch.logit_rows
  const LoraRows* logit_rows = nullptr;  // of the same pass, for the head
};

// The layer that the additions are made to. With several heads, each has its own part of x and y.
struct LoraSize {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t heads = 1;
};

// The matrices of one adapter, f32 on the host. A matrix that all heads share is stored once.
struct LoraMatrices {
  std::int64_t rank = 0;
  float scale = 1.0F;
  std::vector<float> a;  // [heads or 1, rank, in]
  std::vector<float> b;  // [heads or 1, out, rank]
};

// Row r of head h starts at data + r * row_stride + h * head_stride.
struct LoraOperand {
  float* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
};

// The matrices of all adapters for one layer, on the device of the layer's caller.
class LoraLayer {
 public:
  LoraLayer() = default;
  LoraLayer(const LoraLayer&) = delete;
  LoraLayer& operator=(const LoraLayer&) = delete;
  virtual ~LoraLayer() = default;

  // Between passes only. `adapter` is less than kMaxAdapters.
  void set(std::int32_t adapter, const LoraMatrices& matrices);
  void clear(std::int32_t adapter);
  bool empty() const { return used_ == 0; }  // no adapter changes this layer
  bool has(std::int32_t adapter) const {
    return adapter >= 0 && (used_ >> static_cast<unsigned>(adapter) & 1U) != 0;
  }
  // Adds to `num_rows` rows; row 0 of x and y is row first_row of pass.lora.
  virtual void add(const LoraOperand& x,
                   const LoraOperand& y,
                   std::int64_t first_row,
                   std::int64_t num_rows,
                   Pass& pass) = 0;

 protected:
  virtual void store(std::int32_t adapter, const LoraMatrices& matrices) = 0;
  virtual void drop(std::int32_t adapter) = 0;

 private:
  std::uint64_t used_ = 0;  // a bit per adapter
};

// Whether the pass has rows with an adapter, and some adapter changes the layer.
inline bool is_used(const LoraLayer* layer, const Pass& pass) {
  return pass.lora != nullptr && layer != nullptr && !layer->empty();
}

}  // namespace graft::ops
