// DeepSeek-V3.2, GLM-5 and Llama 4 through GGUF: the weights and the configuration stay the same.

#include <cstdio>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/parallel.h"
#include "graft/base/progress.h"
#include "graft/convert/job.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/golden.h"
#include "graft/testing/test_names.h"

namespace graft::convert {
namespace {

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
  EXPECT_EQ(written->config().rope_layers, source->config().rope_layers);
  EXPECT_EQ(written->config().attention_chunk_size, source->config().attention_chunk_size);
  EXPECT_EQ(written->config().temperature_floor, source->config().temperature_floor);
  const models::WeightStore from(*source);
  const models::WeightStore to(*written);
  const plan::Blueprint blueprint = models::make_blueprint(*written);
  to.check(blueprint);
  blueprint.visit([&](const plan::ModuleSpec& module) {
    for (const plan::WeightSpec& spec : module.weights)
      EXPECT_EQ(to.get(spec.name).decode(), from.get(spec.name).decode()) << spec.name;
  });
}

TEST_P(ConvertSparse, QuantizesProjectionsOnly) {
  const auto source = models::open_checkpoint(golden_checkpoint(GetParam()));
  convert_to(*source, "Q8_0");
  const auto written = models::open_checkpoint(out_);
  for (const formats::TensorInfo& tensor : written->tensors()) {
    const bool is_exact = tensor.shape.size() == 1 ||
                          tensor.name.find("ffn_gate_inp") != std::string::npos ||
                          tensor.name.find("indexer.proj") != std::string::npos;
    EXPECT_EQ(tensor.dtype, is_exact ? DType::F32 : DType::Q8_0) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         ConvertSparse,
                         ::testing::Values("deepseek-v3.2", "glm5", "llama4"),
                         checkpoint_test_name);

}  // namespace
}  // namespace graft::convert
