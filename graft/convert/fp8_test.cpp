// FP8 checkpoints to GGUF: the scales are multiplied in.

#include <cstdio>
#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/parallel.h"
#include "graft/base/progress.h"
#include "graft/base/system/temp_dir.h"
#include "graft/convert/job.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/checkpoints/fp8_checkpoint.h"
#include "graft/testing/golden.h"

namespace graft::convert {
namespace {

void expect_same_weights(const char* golden,
                         const formats::test::Fp8Case& form,
                         std::initializer_list<std::string> names) {
  const TempDir folder;
  const formats::test::Fp8Checkpoint written(golden_checkpoint(golden), folder.path(), form);
  const auto source = models::open_checkpoint(written.fp8());
  const Job job = plan_job(*source, "F32");
  ThreadPool pool(2);
  std::FILE* log = std::tmpfile();
  {
    Progress progress("convert", job.input_bytes(), log);
    run(job, folder / "model.gguf", pool, progress);
  }
  std::fclose(log);
  const auto converted = models::open_checkpoint(folder / "model.gguf");
  const auto floats = models::open_checkpoint(written.floats());
  const models::WeightStore got(*converted);
  const models::WeightStore want(*floats);
  for (const std::string& name : names)
    EXPECT_EQ(got.get(name).decode(), want.get(name).decode()) << golden << ' ' << name;
}

TEST(ConvertFp8, MultipliesTheScalesIn) {
  const std::string layer = "model.layers.1.";
  expect_same_weights(
      "llama4", formats::test::kFp8Rows,
      {layer + "feed_forward.experts.0.gate_proj.weight",
       layer + "feed_forward.experts.3.up_proj.weight",
       layer + "feed_forward.experts.2.down_proj.weight", layer + "self_attn.q_proj.weight"});
  expect_same_weights("phi3", formats::test::kFp8Tensor,
                      {layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight",
                       layer + "self_attn.k_proj.weight"});
  expect_same_weights("qwen3-moe", formats::test::kFp8Tiles,
                      {layer + "mlp.experts.3.up_proj.weight", layer + "self_attn.q_proj.weight"});
}

}  // namespace
}  // namespace graft::convert
