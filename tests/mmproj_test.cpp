// GGUF pairs: `graft convert` writes the text model and the vision tower of a LLaVA checkpoint, and
// both together give the features of the checkpoint.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/models/open_model.h"
#include "graft/models/weights/verify.h"
#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"
#include "graft/vision/image.h"
#include "graft/vision/processor.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

namespace fs = std::filesystem;

using models::OpenModel;
using models::OpenOptions;

vision::PreparedImage picture(const OpenModel& open) {
  vision::Image image(90, 60);
  for (std::size_t i = 0; i < image.rgb.size(); ++i)
    image.rgb[i] = static_cast<std::uint8_t>(i * 5 / 3);
  return vision::prepare(image, open.source().config().vision->processor);
}

OpenOptions exact() {
  return {.rules = std::string(models::kExactCacheRule), .load = {.repack = false}};
}

class Mmproj : public testing::TestWithParam<const char*> {};

TEST_P(Mmproj, ConvertedPairGivesTheSameFeatures) {
  const TempDir folder;
  const fs::path model = folder / "model.gguf";
  const fs::path mmproj = folder / "mmproj-model.gguf";
  const fs::path checkpoint = golden_checkpoint(GetParam());
  const Outcome converted =
      run_program({"convert", checkpoint.string(), model.string(), "--type", "F32"});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  ASSERT_TRUE(fs::exists(mmproj)) << converted.out;

  OpenModel source(checkpoint, exact());
  const std::vector<float> want = source.model().encode_image(picture(source));
  OpenModel found(model, exact());
  ASSERT_NE(found.model().vision_tower(), nullptr);
  EXPECT_EQ(picture(found).pixels, picture(source).pixels);
  const std::vector<float> got = found.model().encode_image(picture(found));
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-4) << i;

  // In another folder it is named.
  fs::create_directory(folder / "other");
  const fs::path moved = folder / "other/tower.gguf";
  fs::rename(mmproj, moved);
  EXPECT_EQ(OpenModel(model, exact()).model().vision_tower(), nullptr);
  OpenOptions named = exact();
  named.mmproj = moved;
  EXPECT_NE(OpenModel(model, named).model().vision_tower(), nullptr);
  named.mmproj = model;
  EXPECT_THROW(OpenModel(model, named), Error);
}

TEST_P(Mmproj, BelongsToTheOnlyModelOfAFolder) {
  const TempDir folder;
  const fs::path model = folder / "model.gguf";
  const std::string checkpoint = golden_checkpoint(GetParam()).string();
  ASSERT_EQ(run_program({"convert", checkpoint, model.string()}).exit_code, 0);
  const Outcome plan = run_program({"plan", model.string()});
  EXPECT_NE(plan.out.find("vision_tower"), std::string::npos) << plan.out << plan.err;
  // Quantizing writes the text model alone.
  const fs::path quantized = folder / "model-q8.gguf";
  const Outcome outcome = run_program({"quantize", model.string(), quantized.string(), "Q8_0"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(OpenModel(quantized, exact()).model().vision_tower(), nullptr) << "two models";
  EXPECT_EQ(OpenModel(model, exact()).model().vision_tower(), nullptr);
}

// A tower whose projector is of another width.
TEST_P(Mmproj, OfAnotherModelIsNotUsed) {
  const TempDir folder;
  const fs::path tower = folder / "llava.gguf";
  const std::string checkpoint = golden_checkpoint(GetParam()).string();
  ASSERT_EQ(run_program({"convert", checkpoint, tower.string()}).exit_code, 0);
  fs::create_directory(folder / "text");
  fs::rename(folder / "mmproj-llava.gguf", folder / "text/mmproj.gguf");
  const fs::path text = folder / "text/text.gguf";
  fs::copy_file(bundled_sprout(), text);
  const auto opened = models::open_checkpoint(text);
  EXPECT_FALSE(opened->config().vision);
  ASSERT_FALSE(opened->warnings().empty());
  EXPECT_NE(opened->warnings().back().find("belongs to another model"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Models, Mmproj, testing::Values("llava", "llava-next"));

}  // namespace
}  // namespace graft::tests
