#include "graft/models/build/shapes.h"

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/families/family.h"
#include "graft/testing/shared_data.h"

namespace graft::models {
namespace {

TEST(Shapes, EveryConfigOfTheTestsIsAShape) {
  const auto folder = test_data("configs");
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path file = entry.path() / "config.json";
    if (!std::filesystem::exists(file)) continue;
    const std::string name = entry.path().filename().string();
    const Shape* shape = find_shape(name);
    ASSERT_NE(shape, nullptr) << name;
    EXPECT_EQ(open_shape(*shape)->config(), open_checkpoint(file)->config()) << name;
    ++count;
  }
  EXPECT_GE(count, 10);
}

TEST(Shapes, NamesIgnoreCase) {
  ASSERT_NE(find_shape("deepseek-v3"), nullptr);
  EXPECT_EQ(find_shape("deepseek-v3"), find_shape("DSV3"));
  EXPECT_EQ(find_shape("DeepSeek-V4"), nullptr);
  EXPECT_EQ(shape_config("dsv3").name, "dsv3");
  EXPECT_EQ(shape_config("DEEPSEEK-V3").name, "DeepSeek-V3");
  EXPECT_EQ(shape_config("kimi-k2").name, "kimi-k2");
  EXPECT_EQ(shape_config("Kimi-K2").name, "Kimi-K2");
}

TEST(Shapes, AllShapesHaveBlueprints) {
  for (const Shape& shape : shapes()) {
    const auto checkpoint = open_shape(shape);
    EXPECT_EQ(checkpoint->config().name, shape.summary);
    EXPECT_TRUE(checkpoint->tensors().empty());
    EXPECT_GT(num_parameters(make_blueprint(*checkpoint)), 500'000'000) << shape.name;
  }
}

// Every family but those that share the text model of another, or that another family replaced.
TEST(Shapes, EveryFamilyHasOne) {
  std::set<std::string_view> planned;
  for (const Shape& shape : shapes())
    planned.insert(open_shape(shape)->config().family->model_type());
  for (const char* name :
       {"gpt_oss",    "qwen3_next", "qwen3_5_moe_text", "deepseek_v32", "glm_moe_dsa",
        "minimax_m2", "kimi_k2",    "llama4_text",      "gemma3_text",  "phi3",
        "glm4",       "glm4_moe",   "deepseek_v4",      "deepseek_v2",  "deepseek_v3",
        "llama",      "mixtral",    "qwen2_moe",        "qwen3",        "qwen3_moe"}) {
    EXPECT_TRUE(planned.contains(name)) << name;
  }
}

TEST(Shapes, AnUnknownNameListsTheShapes) {
  try {
    shape_config("nonsense");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("neither a shape (llama-1b, "), std::string::npos);
  }
}

}  // namespace
}  // namespace graft::models
