// DeepSeek-V3.2, DeepSeek-V4, GLM-5 and Llama 4 through GGUF: the weights and the configuration
// stay the same.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/parallel.h"
#include "graft/base/progress.h"
#include "graft/convert/job.h"
#include "graft/convert/recipe.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/generate.h"
#include "graft/models/open_model.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/verify.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/golden.h"
#include "graft/testing/test_names.h"

namespace graft::convert {
namespace {

template <class Weight>
std::vector<std::int64_t> ids_of(const Weight& weight) {
  const bool is_wide = weight.dtype == DType::I64;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(weight.rows() * weight.cols()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::int32_t narrow = 0;
    std::memcpy(is_wide ? static_cast<void*>(&ids[i]) : &narrow,
                weight.data + i * (is_wide ? sizeof(ids[i]) : sizeof(narrow)),
                is_wide ? sizeof(ids[i]) : sizeof(narrow));
    if (!is_wide) ids[i] = narrow;
  }
  return ids;
}

class ConvertSparse : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { std::filesystem::remove(out_); }

  void convert_to(const models::Checkpoint& source, std::string_view type) const {
    const Job job = plan_job(source, type);
    ThreadPool pool(2);
    std::FILE* log = std::tmpfile();
    Progress progress("convert", job.input_bytes(), log);
    run(job, out_, pool, progress);
    progress.finish();
    std::fclose(log);
  }

  std::filesystem::path out_ =
      std::filesystem::path(::testing::TempDir()) / (std::string(GetParam()) + "-sparse.gguf");
};

TEST_P(ConvertSparse, KeepsWeightsAndConfig) {
  const auto source = models::open_checkpoint(golden_checkpoint(GetParam()));
  convert_to(*source, "F32");
  const auto written = models::open_checkpoint(out_);
  EXPECT_EQ(written->config().indexer, source->config().indexer);
  EXPECT_EQ(written->config().moe, source->config().moe);
  EXPECT_EQ(written->config().compressed, source->config().compressed);
  EXPECT_EQ(written->config().hyper, source->config().hyper);
  EXPECT_EQ(written->config().rope, source->config().rope);
  EXPECT_EQ(written->config().local_rope_theta, source->config().local_rope_theta);
  EXPECT_EQ(written->config().rope_layers, source->config().rope_layers);
  EXPECT_EQ(written->config().attention_chunk_size, source->config().attention_chunk_size);
  EXPECT_EQ(written->config().temperature_floor, source->config().temperature_floor);
  const models::WeightStore from(*source);
  const models::WeightStore to(*written);
  const plan::Blueprint blueprint = models::make_blueprint(*written);
  to.check(blueprint);
  blueprint.visit([&](const plan::ModuleSpec& module) {
    for (const plan::WeightSpec& spec : module.weights) {
      if (is_id_type(spec.dtype)) {
        EXPECT_EQ(ids_of(to.get(spec.name)), ids_of(from.get(spec.name))) << spec.name;
      } else {
        EXPECT_EQ(to.get(spec.name).decode(), from.get(spec.name).decode()) << spec.name;
      }
    }
  });
}

TEST_P(ConvertSparse, QuantizesProjectionsOnly) {
  const auto source = models::open_checkpoint(golden_checkpoint(GetParam()));
  convert_to(*source, "Q8_0");
  const auto written = models::open_checkpoint(out_);
  for (const formats::TensorInfo& tensor : written->tensors()) {
    constexpr std::array kExact = {"ffn_gate_inp", "indexer.proj", "_ape.weight",
                                   "hc_attn_fn",   "hc_ffn_fn",    "output_hc_fn"};
    const bool is_exact =
        tensor.shape.size() == 1 || std::ranges::any_of(kExact, [&](const char* part) {
          return tensor.name.find(part) != std::string::npos;
        });
    const bool is_ids = tensor.name.find("tid2eid") != std::string::npos;
    const DType rest = is_exact ? DType::F32 : DType::Q8_0;
    EXPECT_EQ(tensor.dtype, is_ids ? DType::I32 : rest) << tensor.name;
  }
}

// Both with the indexer of graft, whose order of equal scores is not that of the reference.
TEST_P(ConvertSparse, GivesTheLogitsOfTheCheckpoint) {
  const std::filesystem::path folder = golden_checkpoint(GetParam());
  convert_to(*models::open_checkpoint(folder), "F32");
  const models::VerifyOptions options;
  models::OpenModel stored(folder, options.open);
  models::OpenModel converted(out_, options.open);
  for (const models::TokenIds& prompt :
       models::read_reference_prompts(folder / "reference.safetensors")) {
    const auto want = models::run_prompts(stored.model(), {&prompt, 1}).front().logits;
    const auto got = models::run_prompts(converted.model(), {&prompt, 1}).front().logits;
    ASSERT_EQ(got.size(), want.size());
    float largest = 0;
    float error = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      error = std::max(error, std::abs(got[i] - want[i]));
    }
    EXPECT_LE(error, 1e-5F * largest);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    ConvertSparse,
    ::testing::Values("deepseek-v3.2", "glm5", "glm5-shared", "llama4", "deepseek-v4"),
    checkpoint_test_name);

}  // namespace
}  // namespace graft::convert
