#include "graft/formats/integers/integer_weights.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/quant/codec.h"
#include "graft/testing/formats.h"
#include "graft/testing/integers.h"
#include "graft/testing/uniform_float.h"

namespace graft::formats {
namespace {

using test::error_of;
using test::IntegerCase;
using test::PackedLayer;

constexpr std::int64_t kRows = 24;
constexpr std::int64_t kCols = 256;

IntegerConfig config_of(const std::string& json) {
  std::vector<std::string> problems;
  const Json parsed = parse_json(json, "test");
  const IntegerConfig config = read_integer_config(Fields(parsed, "", problems));
  fail_if_any(problems, "test");
  return config;
}

// The tensors of one layer "m" beside one that is not quantized.
class Layer {
 public:
  explicit Layer(const IntegerCase& c) {
    std::mt19937 engine(3);
    std::vector<float> weight(kRows * kCols);
    for (float& value : weight)
      value = uniform_float(engine, -0.3F, 0.2F);
    packed = test::pack_layer(c, weight, kCols);
    for (const test::PackedTensor& tensor : packed.tensors) {
      tensors.push_back({.name = "m" + tensor.suffix,
                         .dtype = tensor.dtype,
                         .shape = tensor.shape,
                         .data = tensor.bytes});
    }
    tensors.push_back(
        {.name = "norm.weight", .dtype = DType::F32, .shape = {1}, .data = norm_bytes});
  }

  TensorInfo& at(const std::string& name) {
    for (TensorInfo& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << name;
    return tensors[0];
  }

  PackedLayer packed;
  std::vector<TensorInfo> tensors;
  std::vector<std::byte> norm_bytes = std::vector<std::byte>(4);
};

std::vector<float> decode(const TensorInfo& weight, std::int64_t begin, std::int64_t count) {
  std::vector<std::byte> rows(bytes_of(weight.dtype, count * kCols));
  weight.row_source->read(begin, count, rows.data());
  std::vector<float> sorted(static_cast<std::size_t>(count * kCols));
  quant::reference_codecs()[static_cast<std::size_t>(weight.dtype)].decode(
      rows.data(), sorted.data(), sorted.size());
  const auto order = weight.row_source->column_order();
  if (!order) return sorted;
  std::vector<float> values(sorted.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i / kCols * kCols + static_cast<std::size_t>((*order)[i % kCols])] = sorted[i];
  return values;
}

class IntegerWeights : public ::testing::TestWithParam<IntegerCase> {};

TEST_P(IntegerWeights, KeepEveryValue) {
  const IntegerCase& c = GetParam();
  const Layer layer(c);
  const auto combined =
      combine_integer_weights(layer.tensors, config_of(test::quantization_json(c)), "test");
  ASSERT_EQ(combined.size(), 2U);
  const TensorInfo& weight = combined[0].name == "m.weight" ? combined[0] : combined[1];
  EXPECT_EQ(weight.name, "m.weight");
  EXPECT_EQ(weight.shape, (std::vector<std::int64_t>{kRows, kCols}));
  EXPECT_EQ(weight.dtype, c.bits == 8 ? DType::Q8_0 : !c.symmetric ? DType::Q5_0 : DType::Q4_0);
  EXPECT_EQ(weight.row_source->column_order() != nullptr, c.act_order);
  EXPECT_EQ(decode(weight, 0, kRows), layer.packed.values);
  // Rows in the middle of the words of AWQ.
  const std::vector<float> some(layer.packed.values.begin() + 5 * kCols,
                                layer.packed.values.begin() + 16 * kCols);
  EXPECT_EQ(decode(weight, 5, 11), some);
}

constexpr IntegerPacking kCompressed = IntegerPacking::CompressedTensors;
constexpr IntegerPacking kGptq = IntegerPacking::Gptq;

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    IntegerWeights,
    ::testing::Values(
        IntegerCase{"compressed_32", kCompressed, 4, 32, true, false, false, DType::BF16},
        IntegerCase{"compressed_64", kCompressed, 4, 64},
        IntegerCase{"compressed_128", kCompressed, 4, 128},
        IntegerCase{"compressed_channel", kCompressed, 4, -1},
        IntegerCase{"compressed_zeros", kCompressed, 4, 64, false},
        IntegerCase{"compressed_order", kCompressed, 4, 64, true, true},
        IntegerCase{"compressed_8_bits", kCompressed, 8, 32},
        IntegerCase{"bytes_channel", IntegerPacking::Bytes, 8, -1, true, false, false, DType::BF16},
        IntegerCase{"gptq_32", kGptq, 4, 32, true, false, true},
        IntegerCase{"gptq_channel", kGptq, 4, -1, true, false, true},
        IntegerCase{"gptq_zeros", kGptq, 4, 128, false, false, true},
        IntegerCase{"gptq_v2_zeros", kGptq, 4, 64, false},
        IntegerCase{"gptq_order", kGptq, 4, 32, true, true, true},
        IntegerCase{"gptq_order_zeros", kGptq, 4, 128, false, true, true},
        IntegerCase{"gptq_8_bits", kGptq, 8, 128, true, false, true},
        IntegerCase{"awq_128", IntegerPacking::Awq, 4, 128, false},
        IntegerCase{"awq_32", IntegerPacking::Awq, 4, 32, false},
        IntegerCase{"awq_channel", IntegerPacking::Awq, 4, -1, false},
        IntegerCase{"awq_symmetric", IntegerPacking::Awq, 4, 64, true}),
    [](const auto& tested) { return std::string(tested.param.name); });

constexpr IntegerCase kPlainGptq{"", kGptq, 4, 32, true, false, true};
constexpr IntegerCase kPlainCompressed{"", kCompressed, 4, 32};

std::string combine_error(const Layer& layer, const std::string& quantization) {
  return error_of(
      [&] { combine_integer_weights(layer.tensors, config_of(quantization), "config.json"); });
}

TEST(IntegerWeightErrors, NameTensorAndShape) {
  const std::string gptq = test::quantization_json(kPlainGptq);
  Layer layer(kPlainGptq);
  layer.at("m.scales").shape = {8, 12};
  EXPECT_EQ(combine_error(layer, gptq),
            "config.json: m.scales: F16 [8, 12], expected [groups, 24]");
  layer = Layer(kPlainGptq);
  layer.at("m.qzeros").shape = {3, 8};
  EXPECT_EQ(combine_error(layer, gptq), "config.json: m.qzeros: I32 [3, 8], expected I32 [8, 3]");
  layer = Layer(kPlainGptq);
  layer.at("m.scales").name = "other";
  EXPECT_EQ(combine_error(layer, gptq), "config.json: m.qweight: m.scales is missing");
  layer = Layer(kPlainGptq);
  layer.at("m.g_idx").shape = {16};
  EXPECT_EQ(combine_error(layer, gptq), "config.json: m.g_idx: I32 [16], expected I32 [256]");
  EXPECT_EQ(combine_error(Layer(kPlainGptq), R"({"quant_method": "other"})"),
            "config.json: m.qweight: packed integers that quantization_config does not describe, "
            "expected quant_method gptq or awq");
}

TEST(IntegerWeightErrors, RefuseGroupsOfOtherSizes) {
  Layer layer(kPlainCompressed);
  layer.at("m.weight_scale").shape = {kRows, 16};
  EXPECT_EQ(combine_error(layer, test::quantization_json(kPlainCompressed)),
            "config.json: m.weight_packed: 256 columns in 16 groups, expected groups of a multiple "
            "of 32 columns");
}

TEST(IntegerWeightErrors, RefuseZeroPointsOfSymmetricWeights) {
  IntegerCase c = kPlainGptq;
  c.symmetric = false;
  const Layer layer(c);
  const auto combined =
      combine_integer_weights(layer.tensors, config_of(test::quantization_json(kPlainGptq)), "");
  std::vector<std::byte> out(bytes_of(DType::Q4_0, kRows * kCols));
  const std::string error = error_of([&] { combined[0].row_source->read(0, kRows, out.data()); });
  EXPECT_NE(error.find("m.qzeros: the zero point of row 0, group "), std::string::npos) << error;
  EXPECT_NE(error.find("expected 8 of symmetric integers of 4 bits"), std::string::npos) << error;
}

TEST(IntegerWeightErrors, RefuseGroupsOutOfRange) {
  Layer layer(kPlainGptq);
  std::vector<std::byte> groups(kCols * sizeof(std::int32_t));
  const std::int32_t bad = 8;
  std::memcpy(groups.data() + 40, &bad, sizeof(bad));
  layer.at("m.g_idx").data = groups;
  const auto combined =
      combine_integer_weights(layer.tensors, config_of(test::quantization_json(kPlainGptq)), "");
  EXPECT_EQ(error_of([&] { combined[0].row_source->column_order(); }),
            "m.g_idx: group 8 is out of range: there are 8 groups");
}

TEST(IntegerConfig, NamesUnsupportedValues) {
  EXPECT_EQ(error_of([] { config_of(R"({"quant_method": "gptq", "bits": 3})"); }),
            "test: \"bits\" is 3, expected 4 or 8");
  EXPECT_EQ(error_of([] { config_of(R"({"quant_method": "awq", "version": "gemv"})"); }),
            "test: \"version\" is \"gemv\", expected gemm");
  EXPECT_EQ(
      error_of([] { config_of(R"({"quant_method": "gptq", "checkpoint_format": "marlin"})"); }),
      "test: \"checkpoint_format\" is \"marlin\", expected gptq or gptq_v2");
  EXPECT_EQ(config_of(R"({"quant_method": "fp8"})").method, IntegerMethod::None);
  EXPECT_EQ(config_of(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0":
                          {"weights": {"num_bits": 8, "type": "float"}}}})")
                .method,
            IntegerMethod::None);
}

TEST(IntegerConfig, IgnoresModules) {
  const IgnoredModules ignored(config_of(R"({"quant_method": "compressed-tensors",
      "ignore": ["lm_head", "re:.*self_attn.*", "re:.*mlp\\.(gate|up|down)_proj.*"],
      "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}})"));
  EXPECT_TRUE(ignored.contains("lm_head"));
  EXPECT_TRUE(ignored.contains("model.layers.0.self_attn.o_proj"));
  EXPECT_TRUE(ignored.contains("model.layers.0.mlp.gate_proj"));
  EXPECT_FALSE(ignored.contains("model.layers.0.mlp.experts.1.gate_proj"));
  EXPECT_FALSE(ignored.contains("model.lm_head"));
  const IgnoredModules awq(
      config_of(R"({"quant_method": "awq", "modules_to_not_convert": ["visual"]})"));
  EXPECT_TRUE(awq.contains("model.visual.q_proj"));
  EXPECT_FALSE(awq.contains("model.layers.0.q_proj"));
}

}  // namespace
}  // namespace graft::formats
