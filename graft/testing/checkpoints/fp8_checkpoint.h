// For tests: a golden checkpoint with its linear layers in FP8 (E4M3) with a scale per tensor, row
// or tile, and the same with the values that they stand for in F32.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/formats/weight_source.h"
#include "graft/quant/codec.h"
#include "graft/testing/checkpoints/write_quantized.h"
#include "graft/testing/integers.h"

namespace graft::formats::test {

struct Fp8Case {
  std::string_view name;
  enum class Scales : std::uint8_t { Tensor, Row, Tile } scales = Scales::Tile;
  const char* quantization = nullptr;  // JSON
  bool has_input_scales = false;       // of activations, which graft does not use
};

inline constexpr std::int64_t kFp8Tile = 64;

// As published: FP8 of Transformers (DeepSeek, MiniMax), of fbgemm, of vLLM with static
// activations, and compressed-tensors.
inline constexpr Fp8Case kFp8Tiles = {
    "tiles", Fp8Case::Scales::Tile,
    R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [64, 64]})"};
inline constexpr Fp8Case kFp8Rows = {
    "rows", Fp8Case::Scales::Row,
    R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0})"};
inline constexpr Fp8Case kFp8Tensor = {
    "tensor", Fp8Case::Scales::Tensor,
    R"({"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]})",
    true};
inline constexpr Fp8Case kFp8CompressedRows = {
    "compressed_rows", Fp8Case::Scales::Row,
    R"({"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8,
        "type": "float", "strategy": "channel", "symmetric": true}}}})"};
inline constexpr Fp8Case kFp8CompressedTiles = {
    "compressed_tiles", Fp8Case::Scales::Tile,
    R"({"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8,
        "type": "float", "strategy": "block", "block_structure": [64, 64], "symmetric": true}}}})"};

class Fp8Checkpoint {
 public:
  // Writes `folder`/fp8 and `folder`/floats.
  Fp8Checkpoint(const std::filesystem::path& golden,
                const std::filesystem::path& folder,
                const Fp8Case& c)
      : fp8_(folder / "fp8"), floats_(folder / "floats") {
    const auto source = open_weights(golden);
    for (const TensorInfo& tensor : source->tensors())
      add(tensor, c);
    write_quantized(golden, fp8_, stored_, c.quantization);
    write_quantized(golden, floats_, plain_, "");
  }

  const std::filesystem::path& fp8() const { return fp8_; }
  const std::filesystem::path& floats() const { return floats_; }
  int num_quantized() const { return num_quantized_; }

 private:
  static constexpr float kMaxE4M3 = 448.0F;

  static std::vector<std::byte> bytes_of_floats(std::span<const float> values) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
  }

  void add(const TensorInfo& tensor, const Fp8Case& c) {
    PackedTensor same{tensor.name, tensor.dtype, tensor.shape, {}};
    same.bytes.assign(tensor.data.begin(), tensor.data.end());
    const bool is_transposed = tensor.name.ends_with(".experts.gate_up_proj") ||
                               tensor.name.ends_with(".experts.down_proj");
    if (!is_transposed && !tensor.name.ends_with("_proj.weight")) {
      stored_.push_back(same);
      return plain_.push_back(std::move(same));
    }
    std::vector<float> values(static_cast<std::size_t>(tensor.num_elems()));
    quant::reference_codecs()[static_cast<std::size_t>(tensor.dtype)].decode(
        tensor.data.data(), values.data(), values.size());
    if (is_transposed) {
      add_transposed(tensor.name, tensor.shape, values);
    } else {
      add_fp8(tensor.name, tensor.shape, c, values);
    }
    plain_.push_back({tensor.name, DType::F32, tensor.shape, bytes_of_floats(values)});
    ++num_quantized_;
  }

  // Experts of Llama 4 [experts, in, out] with a scale per output. Replaces the values.
  void add_transposed(const std::string& name,
                      const std::vector<std::int64_t>& shape,
                      std::vector<float>& values) {
    const auto& codec = quant::reference_codecs()[static_cast<std::size_t>(DType::F8_E4M3)];
    const auto outputs = static_cast<std::size_t>(shape[2]);
    const std::size_t expert_elems = static_cast<std::size_t>(shape[1]) * outputs;
    std::vector<float> scales(static_cast<std::size_t>(shape[0]) * outputs, 1e-6F);
    const auto scale_of = [&](std::size_t i) -> float& {
      return scales[i / expert_elems * outputs + i % outputs];
    };
    for (std::size_t i = 0; i < values.size(); ++i)
      scale_of(i) = std::max(scale_of(i), std::abs(values[i]) / kMaxE4M3);
    PackedTensor weight{name, DType::F8_E4M3, shape, std::vector<std::byte>(values.size())};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float scaled = values[i] / scale_of(i);
      codec.encode(&scaled, &weight.bytes[i], 1);
      codec.decode(&weight.bytes[i], &values[i], 1);
      values[i] *= scale_of(i);
    }
    stored_.push_back(std::move(weight));
    const bool is_down = name.ends_with("down_proj");
    stored_.push_back({name + "_scale", DType::F32,
                       is_down ? std::vector<std::int64_t>{shape[0], shape[2], 1}
                               : std::vector<std::int64_t>{shape[0], 1, shape[2]},
                       bytes_of_floats(scales)});
  }

  // Replaces the values by those that are stored.
  void add_fp8(const std::string& name,
               const std::vector<std::int64_t>& shape,
               const Fp8Case& c,
               std::vector<float>& values) {
    const auto& codec = quant::reference_codecs()[static_cast<std::size_t>(DType::F8_E4M3)];
    const bool is_tile = c.scales == Fp8Case::Scales::Tile;
    const std::int64_t tile_rows = is_tile                            ? kFp8Tile
                                   : c.scales == Fp8Case::Scales::Row ? 1
                                                                      : shape[0];
    const std::int64_t tile_cols = is_tile ? kFp8Tile : shape[1];
    const std::vector<std::int64_t> scale_shape = {(shape[0] + tile_rows - 1) / tile_rows,
                                                   (shape[1] + tile_cols - 1) / tile_cols};
    std::vector<float> scales(static_cast<std::size_t>(scale_shape[0] * scale_shape[1]), 1e-6F);
    const auto scale_of = [&](std::size_t i) -> float& {
      const auto at = static_cast<std::int64_t>(i);
      return scales[static_cast<std::size_t>(at / shape[1] / tile_rows * scale_shape[1] +
                                             at % shape[1] / tile_cols)];
    };
    for (std::size_t i = 0; i < values.size(); ++i)
      scale_of(i) = std::max(scale_of(i), std::abs(values[i]) / kMaxE4M3);
    PackedTensor weight{name, DType::F8_E4M3, shape, std::vector<std::byte>(values.size())};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float scaled = values[i] / scale_of(i);
      codec.encode(&scaled, &weight.bytes[i], 1);
      codec.decode(&weight.bytes[i], &values[i], 1);
      values[i] *= scale_of(i);
    }
    stored_.push_back(std::move(weight));
    const bool is_compressed = std::string_view(c.name).starts_with("compressed");
    stored_.push_back(
        {name + (is_tile && !is_compressed ? "_scale_inv" : "_scale"), DType::F32,
         c.scales == Fp8Case::Scales::Tensor ? std::vector<std::int64_t>{} : scale_shape,
         bytes_of_floats(scales)});
    if (!c.has_input_scales) return;
    const std::string module = name.substr(0, name.size() - std::string_view("weight").size());
    const float input_scale = 0.5F;
    stored_.push_back({module + "input_scale", DType::F32, {}, bytes_of_floats({&input_scale, 1})});
  }

  std::filesystem::path fp8_;
  std::filesystem::path floats_;
  std::vector<PackedTensor> stored_;  // with whole names
  std::vector<PackedTensor> plain_;
  int num_quantized_ = 0;
};

}  // namespace graft::formats::test
