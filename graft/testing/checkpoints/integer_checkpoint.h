// For tests: a golden checkpoint with its linear layers quantized to packed integers, and the same
// with the values that the integers stand for in F32.

#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "graft/formats/weight_source.h"
#include "graft/quant/codec.h"
#include "graft/testing/checkpoints/write_quantized.h"
#include "graft/testing/integers.h"

namespace graft::formats::test {

class IntegerCheckpoint {
 public:
  // Writes `folder`/integers and `folder`/floats.
  IntegerCheckpoint(const std::filesystem::path& golden,
                    const std::filesystem::path& folder,
                    const IntegerCase& c)
      : integers_(folder / "integers"), floats_(folder / "floats") {
    const auto source = open_weights(golden);
    for (const TensorInfo& tensor : source->tensors())
      add(tensor, c);
    write_quantized(golden, integers_, packed_, quantization_json(c));
    write_quantized(golden, floats_, plain_, "");
  }

  const std::filesystem::path& integers() const { return integers_; }
  const std::filesystem::path& floats() const { return floats_; }
  int num_quantized() const { return num_quantized_; }

 private:
  void add(const TensorInfo& tensor, const IntegerCase& c) {
    constexpr std::string_view kWeight = ".weight";
    const bool is_linear = tensor.name.ends_with("_proj.weight");
    if (!is_linear) {
      PackedTensor same{tensor.name, tensor.dtype, tensor.shape, {}};
      same.bytes.assign(tensor.data.begin(), tensor.data.end());
      packed_.push_back(same);
      plain_.push_back(std::move(same));
      return;
    }
    std::vector<float> values(static_cast<std::size_t>(tensor.num_elems()));
    quant::reference_codecs()[static_cast<std::size_t>(tensor.dtype)].decode(
        tensor.data.data(), values.data(), values.size());
    PackedLayer layer = pack_layer(c, values, tensor.row_elems());
    const std::string module = tensor.name.substr(0, tensor.name.size() - kWeight.size());
    for (PackedTensor& part : layer.tensors) {
      part.suffix = module + part.suffix;
      packed_.push_back(std::move(part));
    }
    PackedTensor plain{tensor.name, DType::F32, tensor.shape, {}};
    plain.bytes.resize(layer.values.size() * sizeof(float));
    std::memcpy(plain.bytes.data(), layer.values.data(), plain.bytes.size());
    plain_.push_back(std::move(plain));
    ++num_quantized_;
  }

  std::filesystem::path integers_;
  std::filesystem::path floats_;
  std::vector<PackedTensor> packed_;  // with whole names
  std::vector<PackedTensor> plain_;
  int num_quantized_ = 0;
};

}  // namespace graft::formats::test
