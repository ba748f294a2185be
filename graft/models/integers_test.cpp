// Models with packed integers (compressed-tensors, GPTQ, AWQ) against the same values in F32.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/build/shapes.h"
#include "graft/models/generate.h"
#include "graft/models/open_model.h"
#include "graft/models/weights/verify.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/checkpoints/integer_checkpoint.h"
#include "graft/testing/golden.h"
#include "graft/testing/near_logits.h"

namespace graft::models {
namespace {

using formats::IntegerPacking;
using formats::test::IntegerCase;
using formats::test::IntegerCheckpoint;

constexpr int kNumTokens = 40;

std::vector<float> logits_of(const std::filesystem::path& folder, bool repack) {
  OpenModel open(
      folder,
      {.rules = std::string(kExactCacheRule), .num_threads = 2, .load = {.repack = repack}});
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < kNumTokens; ++i)
    prompt.push_back(3 + i * 7 % 300);
  return run_prompts(open.model(), {&prompt, 1}, {.chunk = 7}).front().logits;
}

struct ModelCase {
  std::string_view name;
  const char* checkpoint;
  IntegerCase integers;
  bool has_experts = false;
};

double rms_error(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0;
  double square = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(double{got[i]} - double{want[i]}, 2);
    square += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(difference / square);
}

class IntegerModel : public ::testing::TestWithParam<ModelCase> {};

TEST_P(IntegerModel, ComputesWithTheStoredValues) {
  const TempDir folder;
  const IntegerCheckpoint written(golden_checkpoint(GetParam().checkpoint), folder.path(),
                                  GetParam().integers);
  ASSERT_GT(written.num_quantized(), 8);
  const std::vector<float> want = logits_of(written.floats(), false);
  EXPECT_LT(testing::relative_error(logits_of(written.integers(), false), want), 1e-5);
  // Packed for the int8 kernels: activations are quantized.
  const std::vector<float> packed = logits_of(written.integers(), true);
  // The experts of tokens whose scores are nearly tied differ.
  EXPECT_LT(rms_error(packed, want), GetParam().has_experts ? 0.3 : 0.06);
}

constexpr IntegerPacking kCompressed = IntegerPacking::CompressedTensors;
constexpr IntegerPacking kGptq = IntegerPacking::Gptq;

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    IntegerModel,
    ::testing::Values(
        ModelCase{"compressed", "llama", {"", kCompressed, 4, 64}},
        ModelCase{"compressed_zeros", "qwen2", {"", kCompressed, 4, 32, false}},
        ModelCase{"bytes", "llama", {"", IntegerPacking::Bytes, 8, -1}},
        ModelCase{"gptq", "llama", {"", kGptq, 4, 128, true, false, true}},
        ModelCase{"gptq_zeros", "llama", {"", kGptq, 4, 64, false}},
        ModelCase{"gptq_order", "llama", {"", kGptq, 4, 32, false, true, true}},
        ModelCase{"gptq_order_fused", "phi3", {"", kGptq, 4, 64, true, true, true}},
        ModelCase{"gptq_experts", "qwen3-moe", {"", kGptq, 4, 32, true, false, true}, true},
        ModelCase{"gptq_order_experts", "qwen3-moe", {"", kGptq, 4, 32, true, true, true}, true},
        ModelCase{"awq", "llama", {"", IntegerPacking::Awq, 4, 128, false}},
        ModelCase{"awq_64", "qwen3", {"", IntegerPacking::Awq, 4, 64, false}},
        ModelCase{"awq_experts", "qwen3-moe", {"", IntegerPacking::Awq, 4, 32, false}, true}),
    [](const auto& tested) { return std::string(tested.param.name); });

// Kimi-K2-Thinking's form.
TEST(IntegerExperts, KeepTheirBits) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("deepseek-v3-int4"));
  const WeightStore store(*checkpoint);
  const ops::Weight weight = store.get("model.layers.1.mlp.experts.3.down_proj.weight");
  EXPECT_EQ(weight.dtype, DType::Q4_0);
  const formats::TensorInfo* combined =
      checkpoint->find("model.layers.1.mlp.experts.3.down_proj.weight");
  ASSERT_NE(combined, nullptr);
  const std::span<const std::byte> codes = combined->data;
  // Row 5, columns 32 .. 63 are the second block; word 4 of the row holds the first eight of them.
  const std::size_t row_bytes = codes.size() / 128;
  const auto* block = reinterpret_cast<const std::uint8_t*>(weight.data) + 5 * weight.row_bytes() +
                      bytes_of(DType::Q4_0, 32) + 2;
  for (std::size_t i = 0; i < 16; ++i) {
    const auto stored = std::to_integer<unsigned>(codes[5 * row_bytes + 16 + i / 2]);
    EXPECT_EQ(block[i] & 15U, i % 2 == 0 ? stored & 15U : stored >> 4U) << i;
  }
}

TEST(IntegerExperts, ArePlannedWithoutFiles) {
  const Shape* shape = find_shape("Kimi-K2-Thinking");
  ASSERT_NE(shape, nullptr);
  const auto checkpoint = open_shape(*shape);
  const plan::Blueprint blueprint = make_blueprint(*checkpoint);
  std::uint64_t expert_bytes = 0;
  blueprint.visit([&](const plan::ModuleSpec& module) {
    for (const plan::WeightSpec& weight : module.weights) {
      const bool is_expert = weight.name.find(".experts.") != std::string::npos;
      EXPECT_EQ(weight.dtype == DType::Q4_0, is_expert) << weight.name;
      if (is_expert) expert_bytes += bytes_of(weight.dtype, weight.shape[0] * weight.shape[1]);
    }
  });
  // 60 layers of 384 experts with three matrices of 7168 x 2048, 4.5 bits each.
  EXPECT_EQ(expert_bytes, 60ULL * 384 * 3 * 7168 * 2048 / 32 * 18);
}

}  // namespace
}  // namespace graft::models
