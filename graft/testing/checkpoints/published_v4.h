// For tests: the golden checkpoint of DeepSeek-V4 as its checkpoints are published (names without
// "model.", FP8 linear layers and FP4 experts with F8_E8M0 scales), and the same values in F32.
// Written from the layout in graft/formats/block_scales.h, one code at a time.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/formats/weight_source.h"
#include "graft/quant/codec.h"

namespace graft::formats::test {

class PublishedV4 {
 public:
  static constexpr std::int64_t kTile = 64;  // rows and columns of a scale of FP8

  // Writes `folder`/published and `folder`/floats.
  PublishedV4(const std::filesystem::path& golden, const std::filesystem::path& folder)
      : published_(folder / "published"), floats_(folder / "floats") {
    const auto source = open_weights(golden);
    for (const TensorInfo& tensor : source->tensors())
      add(tensor);
    Json config = read_json_file(golden / "config.json");
    write(floats_, config, plain_);
    config["expert_dtype"] = "fp4";
    config["quantization_config"] = parse_json(
        str(R"({"quant_method": "fp8", "fmt": "e4m3", "scale_fmt": "ue8m0",)",
            R"("activation_scheme": "dynamic", "weight_block_size": [)", kTile, ", ", kTile, "]}"),
        "test");
    write(published_, config, stored_);
  }

  const std::filesystem::path& published() const { return published_; }
  const std::filesystem::path& floats() const { return floats_; }
  int num_fp8() const { return num_fp8_; }
  int num_fp4() const { return num_fp4_; }

 private:
  struct Stored {
    std::string name;
    std::string dtype;  // as safetensors spells it
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
  };

  static std::string published_name(std::string_view name) {
    constexpr std::string_view kModel = "model.";
    if (name == "model.embed_tokens.weight") return "embed.weight";
    if (name.starts_with("model.hc_head.hc_"))
      return str("hc_head_", name.substr(std::string_view("model.hc_head.hc_").size()));
    return std::string(name.starts_with(kModel) ? name.substr(kModel.size()) : name);
  }

  static bool is_fp8(std::string_view name) {
    constexpr std::array<std::string_view, 6> kProjections = {
        ".wq_a.weight", ".wq_b.weight", ".attn.wkv.weight",
        ".wo_a.weight", ".wo_b.weight", ".shared_experts."};
    return std::ranges::any_of(kProjections, [&](std::string_view part) {
      return name.find(part) != std::string_view::npos;
    });
  }

  static std::vector<std::byte> bytes_of_floats(std::span<const float> values) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
  }

  void add(const TensorInfo& tensor) {
    const std::string name = published_name(tensor.name);
    Stored same = {name, std::string(graft::name(tensor.dtype)), tensor.shape, {}};
    same.bytes.assign(tensor.data.begin(), tensor.data.end());
    if (tensor.dtype == DType::I64) {
      stored_.push_back(same);
      same.name = tensor.name;
      return plain_.push_back(std::move(same));
    }
    std::vector<float> values(static_cast<std::size_t>(tensor.num_elems()));
    quant::reference_codecs()[static_cast<std::size_t>(tensor.dtype)].decode(
        tensor.data.data(), values.data(), values.size());
    if (name.find(".ffn.experts.") != std::string::npos) {
      add_fp4(name, tensor.shape, values);
    } else if (is_fp8(name)) {
      add_fp8(name, tensor.shape, values);
    } else {
      stored_.push_back(std::move(same));
    }
    plain_.push_back({tensor.name, "F32", tensor.shape, bytes_of_floats(values)});
  }

  // 2^e, the smallest power of two for which `largest` / 2^e is at most `max`.
  static int exponent(float largest, float max) {
    return largest == 0 ? 0 : static_cast<int>(std::ceil(std::log2(largest / max)));
  }

  static std::string scale_name(const std::string& weight) {
    return str(weight.substr(0, weight.size() - std::string_view(".weight").size()), ".scale");
  }

  // Replaces the values by those that are stored.
  void add_fp8(const std::string& name,
               const std::vector<std::int64_t>& shape,
               std::vector<float>& values) {
    constexpr float kMaxE4M3 = 448.0F;
    const auto& codec = quant::reference_codecs()[static_cast<std::size_t>(DType::F8_E4M3)];
    const std::int64_t tile_cols = (shape[1] + kTile - 1) / kTile;
    const std::int64_t tile_rows = (shape[0] + kTile - 1) / kTile;
    std::vector<float> largest(static_cast<std::size_t>(tile_rows * tile_cols), 0.0F);
    const auto tile = [&](std::size_t i) {
      const auto at = static_cast<std::int64_t>(i);
      return static_cast<std::size_t>(at / shape[1] / kTile * tile_cols + at % shape[1] / kTile);
    };
    for (std::size_t i = 0; i < values.size(); ++i)
      largest[tile(i)] = std::max(largest[tile(i)], std::abs(values[i]));
    Stored weight = {name, "F8_E4M3", shape, std::vector<std::byte>(values.size())};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int power = exponent(largest[tile(i)], kMaxE4M3);
      const float scaled = std::ldexp(values[i], -power);
      codec.encode(&scaled, &weight.bytes[i], 1);
      codec.decode(&weight.bytes[i], &values[i], 1);
      values[i] = std::ldexp(values[i], power);
    }
    Stored scales = {scale_name(name), "F8_E8M0", {tile_rows, tile_cols}, {}};
    for (const float value : largest)
      scales.bytes.push_back(static_cast<std::byte>(exponent(value, kMaxE4M3) + 127));
    stored_.push_back(std::move(weight));
    stored_.push_back(std::move(scales));
    ++num_fp8_;
  }

  void add_fp4(const std::string& name,
               const std::vector<std::int64_t>& shape,
               std::vector<float>& values) {
    constexpr std::array<float, 8> kE2M1 = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    constexpr std::size_t kBlock = 32;
    Stored weight = {
        name, "I8", {shape[0], shape[1] / 2}, std::vector<std::byte>(values.size() / 2)};
    Stored scales = {scale_name(name), "F8_E8M0", {shape[0], shape[1] / 32}, {}};
    for (std::size_t first = 0; first < values.size(); first += kBlock) {
      float largest = 0;
      for (std::size_t i = first; i < first + kBlock; ++i)
        largest = std::max(largest, std::abs(values[i]));
      const int power = exponent(largest, kE2M1.back());
      scales.bytes.push_back(static_cast<std::byte>(power + 127));
      for (std::size_t i = first; i < first + kBlock; ++i) {
        const float scaled = std::abs(std::ldexp(values[i], -power));
        std::size_t code = 0;
        for (std::size_t other = 1; other < kE2M1.size(); ++other) {
          if (std::abs(kE2M1[other] - scaled) < std::abs(kE2M1[code] - scaled)) code = other;
        }
        const bool is_negative = values[i] < 0;
        values[i] = std::ldexp(is_negative ? -kE2M1[code] : kE2M1[code], power);
        const auto bits = static_cast<unsigned>(code) | (is_negative ? 8U : 0U);
        weight.bytes[i / 2] |= static_cast<std::byte>(i % 2 == 0 ? bits : bits << 4U);
      }
    }
    stored_.push_back(std::move(weight));
    stored_.push_back(std::move(scales));
    ++num_fp4_;
  }

  // graft's own writer has no F8_E8M0.
  static void write(const std::filesystem::path& folder,
                    const Json& config,
                    const std::vector<Stored>& tensors) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config.dump();
    Json header = Json::object();
    std::size_t offset = 0;
    for (const Stored& tensor : tensors) {
      header[tensor.name] = {{"dtype", tensor.dtype},
                             {"shape", tensor.shape},
                             {"data_offsets", {offset, offset + tensor.bytes.size()}}};
      offset += tensor.bytes.size();
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const auto length = static_cast<std::uint64_t>(text.size());
    static_assert(std::endian::native == std::endian::little);
    std::ofstream file(folder / "model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << text;
    for (const Stored& tensor : tensors) {
      file.write(reinterpret_cast<const char*>(tensor.bytes.data()),
                 static_cast<std::streamsize>(tensor.bytes.size()));
    }
  }

  std::filesystem::path published_;
  std::filesystem::path floats_;
  std::vector<Stored> stored_;
  std::vector<Stored> plain_;
  int num_fp8_ = 0;
  int num_fp4_ = 0;
};

}  // namespace graft::formats::test
