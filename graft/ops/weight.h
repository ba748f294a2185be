// A weight matrix as operators read it: contiguous rows of one dtype in Hugging Face layout.
// Tensors that a checkpoint permutes, merges or splits are already transformed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/quant/fp8_scale.h"
#include "graft/tensor/buffer.h"
#include "graft/tensor/dtype.h"

namespace graft::packing {
class Packer;
}  // namespace graft::packing

namespace graft::ops {

// The scales of an FP8 weight, a separate tensor in the checkpoint.
struct WeightScale {
  quant::ScaleLayout layout;
  std::vector<float> values;  // [layout.num_scales()]
};

struct Weight {
  std::string name;  // Hugging Face name, for messages
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;  // outermost first
  const std::byte* data = nullptr;  // in the mapped file, or in `owned`
  std::shared_ptr<const Buffer> owned = {};
  std::optional<DType> computed_from = {};        // the stored type, where a transform computed f32
  std::shared_ptr<const WeightScale> scale = {};  // of FP8 weights; null: none
  // Column i of the rows is column (*column_order)[i] of the weight, as GPTQ sorts them by group;
  // null: they are in order. Only linear layers and experts have such weights.
  std::shared_ptr<const std::vector<std::int32_t>> column_order = {};

  std::int64_t rows() const;
  std::int64_t cols() const;
  std::size_t row_bytes() const { return bytes_of(dtype, cols()); }
  // Dequantizes rows [begin, begin + count) to f32, columns in order. Thread-safe.
  void decode_rows(std::int64_t begin, std::int64_t count, float* out) const;
  std::vector<float> decode() const;
  // Throws Error when the shape differs from the model's configuration, or the columns are not in
  // order.
  void expect_shape(std::int64_t num_rows, std::int64_t num_cols) const;
  // The same for linear layers and experts, which take columns in any order.
  void expect_linear(std::int64_t num_rows, std::int64_t num_cols) const;
};

// Memory for the rows of a weight, in pages of its own: copies to a GPU lock them, and a copy must
// not cross from locked pages into others. Sets `data` and `owned`.
std::byte* allocate_rows(Weight& weight);

// Provides weights to operators by Hugging Face name, for every checkpoint format.
class WeightProvider {
 public:
  virtual ~WeightProvider() = default;

  // Throws Error when the weight is missing.
  virtual Weight get(std::string_view name) = 0;
  virtual bool contains(std::string_view name) = 0;
  // The projection ("gate_proj", "up_proj" or "down_proj") of every routed expert of the module
  // `experts` ("model.layers.3.mlp.experts"), by expert index.
  virtual std::vector<Weight> experts(std::string_view experts, std::string_view projection) = 0;
  // Packs weights for the CPU kernels; null: operators use them as the checkpoint stores them.
  virtual packing::Packer* packer() { return nullptr; }
  // The operator has copied the weight and will not read its bytes again.
  virtual void release(const Weight& /*weight*/) {}
  // Tells the user about a limitation that costs speed, not results.
  virtual void warn(const std::string& /*line*/) {}

  // An object that operators share while loading, such as pinned copy buffers; destroyed with the
  // provider.
  std::shared_ptr<void>& kept_while_loading(const std::string& key) { return kept_[key]; }

 private:
  std::map<std::string, std::shared_ptr<void>> kept_;
};

// A weight of one row of `size` values, decoded. Throws Error when it is missing or has another
// size.
std::vector<float> load_vector(WeightProvider& weights, const std::string& name, std::int64_t size);

}  // namespace graft::ops
