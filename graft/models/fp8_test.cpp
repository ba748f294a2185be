// Models in FP8 with scales per tensor, row and tile, against the same values in F32.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/models/generate.h"
#include "graft/models/open_model.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/verify.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/bf16_rounding.h"
#include "graft/testing/checkpoints/fp8_checkpoint.h"
#include "graft/testing/golden.h"
#include "graft/testing/near_logits.h"

namespace graft::models {
namespace {

using formats::test::Fp8Case;
using formats::test::Fp8Checkpoint;

struct Fp8ModelCase {
  std::string_view name;
  const char* checkpoint;
  Fp8Case form;
};

class Fp8Model : public ::testing::TestWithParam<Fp8ModelCase> {
 protected:
  static std::vector<float> logits_of(const std::filesystem::path& folder, bool repack) {
    OpenModel open(
        folder,
        {.rules = std::string(kExactCacheRule), .num_threads = 2, .load = {.repack = repack}});
    TokenIds prompt;
    for (std::int32_t i = 0; i < 40; ++i)
      prompt.push_back(3 + i * 7 % 300);
    return run_prompts(open.model(), {&prompt, 1}, {.chunk = 7}).front().logits;
  }
};

TEST_P(Fp8Model, ComputesWithTheStoredValues) {
  const TempDir folder;
  const Fp8Checkpoint written(golden_checkpoint(GetParam().checkpoint), folder.path(),
                              GetParam().form);
  ASSERT_GT(written.num_quantized(), 8);
  const std::vector<float> want = logits_of(written.floats(), false);
  for (const bool repack : {false, true}) {
    // Rounded activations may choose other experts.
    const double tolerance = repack && rounds_to_bf16() ? 0.1 : 1e-5;
    EXPECT_LT(testing::relative_error(logits_of(written.fp8(), repack), want), tolerance) << repack;
  }
}

TEST_P(Fp8Model, KeepsTheBits) {
  const TempDir folder;
  const Fp8Checkpoint written(golden_checkpoint(GetParam().checkpoint), folder.path(),
                              GetParam().form);
  const auto fp8 = open_checkpoint(written.fp8());
  const auto floats = open_checkpoint(written.floats());
  const WeightStore stored(*fp8);
  const WeightStore plain(*floats);
  for (const char* projection : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    const std::string name = std::string("model.layers.1.self_attn.") + projection + ".weight";
    const ops::Weight weight = stored.get(name);
    EXPECT_EQ(weight.dtype, DType::F8_E4M3) << name;
    EXPECT_EQ(weight.decode(), plain.get(name).decode()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Scales,
    Fp8Model,
    ::testing::Values(Fp8ModelCase{"tiles", "llama", formats::test::kFp8Tiles},
                      Fp8ModelCase{"tiles_experts", "qwen3-moe", formats::test::kFp8Tiles},
                      Fp8ModelCase{"tiles_fused", "phi3", formats::test::kFp8Tiles},
                      Fp8ModelCase{"rows", "llama", formats::test::kFp8Rows},
                      Fp8ModelCase{"rows_fused", "phi3", formats::test::kFp8CompressedRows},
                      Fp8ModelCase{"rows_experts", "qwen3-moe", formats::test::kFp8CompressedRows},
                      Fp8ModelCase{"rows_transposed_experts", "llama4", formats::test::kFp8Rows},
                      Fp8ModelCase{"tensor", "llama", formats::test::kFp8Tensor},
                      Fp8ModelCase{"tensor_fused", "phi3", formats::test::kFp8Tensor},
                      Fp8ModelCase{"tensor_experts", "qwen3-moe", formats::test::kFp8Tensor},
                      Fp8ModelCase{"compressed_tiles", "qwen3",
                                   formats::test::kFp8CompressedTiles}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace graft::models
