#include "graft/api/catalog.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"

namespace graft::api {
namespace {

namespace fs = std::filesystem;

class CatalogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write("bundled/sprout/sprout-Q6_K.gguf", 3);
    setenv("GRAFT_MODELS_DIR", (root_ / "bundled").c_str(), 1);
    write("mine/Llama-3-Q4_0.gguf", 10);
    write("mine/giant/DeepSeek-V3-Q4_K_M-00001-of-00003.gguf", 1);
    write("mine/giant/DeepSeek-V3-Q4_K_M-00002-of-00003.gguf", 20);
    write("mine/giant/DeepSeek-V3-Q4_K_M-00003-of-00003.gguf", 300);
    write("mine/org/Qwen3-8B/config.json", 2);
    write("mine/org/Qwen3-8B/model-00001-of-00002.safetensors", 5);
    write("mine/org/Qwen3-8B/model-00002-of-00002.safetensors", 5);
    write("mine/config-only/config.json", 2);
    write("mine/a/b/c/too-deep.gguf", 1);
    write("mine/empty/notes.txt", 1);
  }
  void TearDown() override { unsetenv("GRAFT_MODELS_DIR"); }

  void write(const std::string& name, std::size_t size) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << std::string(size, 'x');
  }
  std::string error_of(const std::string& name) const {
    try {
      Catalog({root_ / "mine"}).find(name);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  TempDir root_;
};

TEST_F(CatalogTest, ListsBundledModelsFirstAndShardedFilesOnce) {
  const std::vector<ModelEntry> models = Catalog({root_ / "mine", root_ / "nowhere"}).list();
  ASSERT_EQ(models.size(), 4U);
  EXPECT_EQ(models[0].name, "sprout");
  EXPECT_TRUE(models[0].bundled);
  EXPECT_EQ(models[1].name, "DeepSeek-V3-Q4_K_M");
  EXPECT_EQ(models[1].bytes, 321U);
  EXPECT_EQ(models[1].path.filename(), "DeepSeek-V3-Q4_K_M-00001-of-00003.gguf");
  EXPECT_EQ(models[2].name, "Llama-3-Q4_0");
  EXPECT_FALSE(models[2].bundled);
  EXPECT_EQ(models[3].name, "Qwen3-8B");
  EXPECT_EQ(models[3].bytes, 10U);
}

TEST_F(CatalogTest, FindsByNameAndByPath) {
  const Catalog catalog({root_ / "mine"});
  EXPECT_EQ(catalog.find(""), root_ / "bundled/sprout/sprout-Q6_K.gguf");
  EXPECT_EQ(catalog.find("Sprout"), root_ / "bundled/sprout/sprout-Q6_K.gguf");
  EXPECT_EQ(catalog.find("llama-3-q4_0"), root_ / "mine/Llama-3-Q4_0.gguf");
  const std::string file = root_ / "mine/Llama-3-Q4_0.gguf";
  EXPECT_EQ(catalog.find(file), file);
  const std::string folder = root_ / "mine/org/Qwen3-8B";
  EXPECT_EQ(catalog.find(folder), folder);
  EXPECT_EQ(catalog.find(root_ / "mine/giant").filename(),
            "DeepSeek-V3-Q4_K_M-00001-of-00003.gguf");
}

TEST_F(CatalogTest, ErrorsListTheAvailableModels) {
  EXPECT_EQ(error_of("lama"),
            "lama: no such file or folder, and no model of that name (available: sprout, "
            "DeepSeek-V3-Q4_K_M, Llama-3-Q4_0, Qwen3-8B)");
  EXPECT_NE(error_of(root_ / "mine/empty").find("no model in this folder"), std::string::npos);
  EXPECT_NE(error_of(root_ / "mine").find("3 models in this folder; give the path of one"),
            std::string::npos);
}

}  // namespace
}  // namespace graft::api
