// GPT-OSS through GGUF: published MXFP4 experts keep their bits.

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/parallel.h"
#include "graft/base/progress.h"
#include "graft/convert/job.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/golden.h"

namespace graft::convert {
namespace {

class ConvertGptOss : public ::testing::Test {
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

TEST_F(ConvertGptOss, KeepsTheBitsOfMxfp4) {
  const auto source = models::open_checkpoint(golden_checkpoint("gpt-oss-mxfp4"));
  convert(*source, "auto");
  const auto written = models::open_checkpoint(out_);
  const models::WeightStore from(*source);
  const models::WeightStore to(*written);
  const plan::Blueprint blueprint = models::make_blueprint(*written);
  to.check(blueprint);
  std::size_t num_experts = 0;
  blueprint.visit([&](const plan::ModuleSpec& module) {
    for (const plan::WeightSpec& spec : module.weights) {
      const ops::Weight want = from.get(spec.name);
      const ops::Weight got = to.get(spec.name);
      EXPECT_EQ(got.decode(), want.decode()) << spec.name;
      if (want.dtype != DType::MXFP4) continue;
      ++num_experts;
      ASSERT_EQ(got.dtype, DType::MXFP4) << spec.name;
      const std::size_t bytes = static_cast<std::size_t>(want.rows()) * want.row_bytes();
      EXPECT_EQ(std::memcmp(got.data, want.data, bytes), 0) << spec.name;
    }
  });
  EXPECT_EQ(num_experts, 2U * 4U * 3U);  // layers, experts, projections
}

TEST_F(ConvertGptOss, DecodesMxfp4ForOtherTypes) {
  const auto source = models::open_checkpoint(golden_checkpoint("gpt-oss-mxfp4"));
  convert(*source, "F32");
  const auto written = models::open_checkpoint(out_);
  const models::WeightStore from(*source);
  const models::WeightStore to(*written);
  for (const char* name :
       {"model.layers.1.mlp.experts.2.gate_proj.weight",
        "model.layers.0.mlp.experts.3.up_proj.weight",
        "model.layers.1.mlp.experts.0.down_proj.weight",
        "model.layers.1.mlp.experts.0.up_proj.bias", "model.layers.1.self_attn.sinks"}) {
    const ops::Weight got = to.get(name);
    EXPECT_EQ(got.dtype, DType::F32) << name;
    EXPECT_EQ(got.decode(), from.get(name).decode()) << name;
  }
}

}  // namespace
}  // namespace graft::convert
