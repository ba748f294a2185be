// A weight matrix as operators read it: contiguous rows of one dtype in Hugging Face layout.
// Tensors that a checkpoint permutes, merges or splits are already transformed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/quant/fp8_scale.h"
#include "graft/tensor/arena.h"
#include "graft/tensor/buffer.h"
#include "graft/tensor/dtype.h"

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
  std::shared_ptr<const WeightScale> scale = {};  // of FP8 weights; null: none

  std::int64_t rows() const;
  std::int64_t cols() const;
  std::size_t row_bytes() const { return bytes_of(dtype, cols()); }
  // Dequantizes rows [begin, begin + count) to f32. Thread-safe.
  void decode_rows(std::int64_t begin, std::int64_t count, float* out) const;
  std::vector<float> decode() const;
  // Throws Error when the shape differs from the model's configuration.
  void expect_shape(std::int64_t num_rows, std::int64_t num_cols) const;
};

// Bytes, kept alive by `owner`.
struct SharedBytes {
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> owner = {};
};

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
  // The threads to pack weights with; null: single-threaded.
  virtual ThreadPool* pool() { return nullptr; }
  // False: weights are not repacked but read from the mapped file.
  virtual bool may_repack() { return true; }
  // The operator has copied the weight and does not read its bytes again.
  virtual void release(const Weight& /*weight*/) {}
  // Whether packed weights are cached (the next two functions).
  virtual bool keeps_packed() { return false; }
  // The cached result of pack() (cpu/packed.h); empty: not cached.
  virtual SharedBytes find_packed(const Weight& /*weight*/) { return {}; }
  // Caches the result of pack().
  virtual void keep_packed(const Weight& /*weight*/, const SharedBytes& /*panels*/) {}

  // Memory for packed weights on a NUMA node, from one arena per node for all operators.
  std::shared_ptr<std::byte> allocate(std::size_t node, std::size_t bytes);

  // An object that operators share while loading, such as pinned copy buffers; destroyed with the
  // provider.
  std::shared_ptr<void>& kept_while_loading(const std::string& key) { return kept_[key]; }

 private:
  std::vector<Arena> memory_;  // by NUMA node
  std::map<std::string, std::shared_ptr<void>> kept_;
};

}  // namespace graft::ops
