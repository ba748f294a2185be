// GGUF files converted from golden checkpoints that `graft verify` cannot compare by itself: models
// with an indexer (equal scores), and stored precisions, against the outputs of Transformers.

#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/parallel.h"
#include "graft/base/progress.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/str.h"
#include "graft/convert/job.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/verify.h"
#include "graft/testing/checkpoints/verify_golden.h"
#include "graft/testing/golden.h"

namespace graft::tests {
namespace {

struct GgufCase {
  const char* checkpoint;
  const char* type;
};

class GoldenGguf : public ::testing::TestWithParam<GgufCase> {};

TEST_P(GoldenGguf, MatchesTheReference) {
  const TempDir folder;
  const std::string file = folder / "model.gguf";
  const auto source = models::open_checkpoint(golden_checkpoint(GetParam().checkpoint));
  const convert::Job job = convert::plan_job(*source, GetParam().type);
  ThreadPool pool;
  std::FILE* log = std::tmpfile();
  {
    Progress progress("convert", job.input_bytes(), log);
    convert::run(job, file, pool, progress);
  }
  std::fclose(log);

  const std::string checkpoint = GetParam().checkpoint;
  const models::VerifyReport report =
      models::testing::verify_golden(checkpoint, file, models::testing::golden_options(checkpoint));
  ASSERT_EQ(report.prompts.size(), 2U);
  EXPECT_TRUE(report.ok()) << "largest error " << report.largest_error();
  EXPECT_LE(report.largest_error(), 1e-4);
}

// "auto" keeps the bits of packed integers and of MXFP4; that of FP8 is BF16, which rounds.
INSTANTIATE_TEST_SUITE_P(Models,
                         GoldenGguf,
                         ::testing::Values(GgufCase{"deepseek-v3-fp8", "F32"},
                                           GgufCase{"deepseek-v3-int4", "F32"},
                                           GgufCase{"deepseek-v3-int4", "auto"},
                                           GgufCase{"gpt-oss-mxfp4", "F32"},
                                           GgufCase{"gpt-oss-mxfp4", "auto"},
                                           GgufCase{"deepseek-v3.2", "F32"},
                                           GgufCase{"glm5", "F32"},
                                           GgufCase{"deepseek-v4", "F32"},
                                           GgufCase{"deepseek-v4", "auto"}),
                         [](const auto& tested) {
                           std::string name = str(tested.param.checkpoint, "_", tested.param.type);
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

}  // namespace
}  // namespace graft::tests
