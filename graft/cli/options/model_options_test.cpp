#include "graft/cli/options/model_options.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

TEST(ModelChoice, APathWinsOverAShape) {
  const TempDir folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  ModelChoice choice;
  choice.text = "DeepSeek-V3";
  EXPECT_EQ(choice.open_or_shape()->config().name, "DeepSeek-V3");
  fs::create_directory("DeepSeek-V3");  // not a model, but a path
  EXPECT_THROW(choice.open_or_shape(), Error);
  fs::copy(fs::path(GRAFT_SOURCE_DIR) / "tests/golden/llama/config.json", "DeepSeek-V3");
  EXPECT_EQ(choice.open_or_shape()->config().num_hidden_layers, 3);
  fs::current_path(before);
}

}  // namespace
}  // namespace graft::cli
