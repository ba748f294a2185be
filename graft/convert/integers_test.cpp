// Packed integers through GGUF: codes and scales keep their bits.

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/parallel.h"
#include "graft/base/progress.h"
#include "graft/base/system/temp_dir.h"
#include "graft/convert/job.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/checkpoints/integer_checkpoint.h"
#include "graft/testing/checkpoints/published_v4.h"
#include "graft/testing/golden.h"

namespace graft::convert {
namespace {

class ConvertIntegers : public ::testing::Test {
 protected:
  void SetUp() override {
    out_ = std::filesystem::path(::testing::TempDir()) /
           (std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + ".gguf");
  }
  void TearDown() override { std::filesystem::remove(out_); }

  void convert(const models::Checkpoint& source, std::string_view type) const {
    const Job job = plan_job(source, type);
    ThreadPool pool(2);
    std::FILE* log = std::tmpfile();
    Progress progress("convert", job.input_bytes(), log);
    run(job, out_, pool, progress);
    progress.finish();
    std::fclose(log);
  }

  std::filesystem::path out_;
};

// Every weight of the file has the values of the checkpoint; returns how many have `type`.
int num_equal(const models::Checkpoint& source, const std::filesystem::path& out, DType type) {
  const auto written = models::open_checkpoint(out);
  const models::WeightStore from(source);
  const models::WeightStore to(*written);
  const plan::Blueprint blueprint = models::make_blueprint(*written);
  to.check(blueprint);
  int num_kept = 0;
  blueprint.visit([&](const plan::ModuleSpec& module) {
    for (const plan::WeightSpec& spec : module.weights) {
      const ops::Weight want = from.get(spec.name);
      const ops::Weight got = to.get(spec.name);
      EXPECT_EQ(got.decode(), want.decode()) << spec.name;
      if (want.dtype != type || got.dtype != type) continue;
      ++num_kept;
      const std::size_t bytes = static_cast<std::size_t>(want.rows()) * want.row_bytes();
      EXPECT_EQ(std::memcmp(got.data, want.data, bytes), 0) << spec.name;
    }
  });
  return num_kept;
}

TEST_F(ConvertIntegers, KeepsTheBitsOfExperts) {
  const auto source = models::open_checkpoint(golden_checkpoint("deepseek-v3-int4"));
  convert(*source, "auto");
  EXPECT_EQ(num_equal(*source, out_, DType::Q4_0), 2 * 8 * 3);  // layers, experts, projections
  EXPECT_EQ(models::open_checkpoint(out_)->gguf_metadata()->integer("general.file_type"), 2);
}

// The rows of q_proj and k_proj are interleaved for llama.cpp's RoPE.
TEST_F(ConvertIntegers, KeepsTheBitsOfReorderedRows) {
  const TempDir folder;
  const formats::test::IntegerCheckpoint checkpoint(
      golden_checkpoint("llama"), folder.path(), {"", formats::IntegerPacking::Awq, 4, 64, false});
  const auto source = models::open_checkpoint(checkpoint.integers());
  convert(*source, "auto");
  EXPECT_EQ(num_equal(*source, out_, DType::Q5_0), checkpoint.num_quantized());
}

// GGUF has no order of columns: such weights are decoded.
TEST_F(ConvertIntegers, RestoresTheOrderOfColumns) {
  for (const char* name : {"llama", "qwen3-moe"}) {  // the latter has experts
    const TempDir folder;
    const formats::test::IntegerCheckpoint checkpoint(
        golden_checkpoint(name), folder.path(),
        {"", formats::IntegerPacking::Gptq, 4, 32, true, true, true});
    const auto source = models::open_checkpoint(checkpoint.integers());
    convert(*source, "F32");
    EXPECT_EQ(num_equal(*source, out_, DType::Q4_0), 0);
    const Job job = plan_job(*source, "auto");
    for (const Recipe& recipe : job.recipes)
      EXPECT_FALSE(is_quantized(recipe.dtype)) << recipe.name;
  }
}

TEST_F(ConvertIntegers, KeepsTheBitsOfFp4Experts) {
  const TempDir folder;
  const formats::test::PublishedV4 checkpoint(golden_checkpoint("deepseek-v4"), folder.path());
  const auto source = models::open_checkpoint(checkpoint.published());
  convert(*source, "auto");
  EXPECT_EQ(num_equal(*source, out_, DType::MXFP4), checkpoint.num_fp4());
}

}  // namespace
}  // namespace graft::convert
