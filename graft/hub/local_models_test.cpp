#include "graft/hub/local_models.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/hub/hf_cache.h"
#include "graft/hub/ollama_store.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

class LocalModelsTest : public ::testing::Test {
 protected:
  LocalModelsTest() {
    env_.home = home_.path();
    env_.cache = home_ / ".cache";
    env_.hf_cache = home_ / "hub";
    env_.ollama_store = home_ / "ollama";
    env_.other_ollama_stores = {home_ / ".ollama/models",
                                home_ / "usr/share/ollama/.ollama/models"};
    env_.models = home_ / "models";
  }

  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((home_.path() / path).parent_path());
    std::ofstream(home_.path() / path) << text;
  }

  // The origin of every model by name.
  std::map<std::string, std::string> found() const {
    std::map<std::string, std::string> models;
    for (const LocalModel& model : find_local_models(env_))
      models[model.name] = model.origin;
    return models;
  }

  // A file of a snapshot; its hash is not the right one, which nothing here checks.
  void cache_file(const std::string& repo, const std::string& path, const std::string& text) {
    const HfCache cache(env_.hf_cache, repo);
    const RemoteFile file = {.path = path, .hash = sha256_or_none(sha256_of(text))};
    fs::create_directories(cache.blob_path(file).parent_path());
    std::ofstream(cache.blob_path(file)) << text;
    cache.link(std::string(40, 'a'), {file}, "main");
  }

  void add_ollama(const fs::path& folder, const std::string& name) const {
    const OllamaStore store(folder);
    const OllamaLayer model = store.add_blob("model", "weights");
    store.write_manifest(parse_ollama_name(name),
                         make_ollama_manifest(store.add_blob("config", "{}"), {model}));
  }

  TempDir home_;
  Environment env_;
};

TEST_F(LocalModelsTest, FindsModelsOfEveryProgram) {
  cache_file("org/repo", "m-Q4_K_M.gguf", "1");
  cache_file("org/repo", "m-Q8_0-00001-of-00002.gguf", "2");  // incomplete
  cache_file("org/folder", "config.json", "{}");
  cache_file("org/folder", "model.safetensors", "3");
  cache_file("org/partial", "config.json", "{}");
  add_ollama(env_.ollama_store, "pulled:1b");
  add_ollama(home_ / ".ollama/models", "user/other");
  add_ollama(home_ / "usr/share/ollama/.ollama/models", "system:7b");  // of Ollama's service
  write(".lmstudio/models/pub/repo/lm-Q4_0.gguf", "4");
  write(".lmstudio/models/pub/repo/mmproj-F16.gguf", "4");
  write(".cache/llama.cpp/org_repo_file.gguf", "5");
  write(".ktransformers/models/DeepSeek/config.json", "{}");
  write(".ktransformers/models/DeepSeek/model.safetensors", "6");
  EXPECT_EQ(found(), (std::map<std::string, std::string>{{"org/repo:Q4_K_M", "Hugging Face cache"},
                                                         {"org/folder", "Hugging Face cache"},
                                                         {"pulled:1b", "Ollama"},
                                                         {"user/other:latest", "Ollama"},
                                                         {"system:7b", "Ollama"},
                                                         {"lm-Q4_0", "LM Studio"},
                                                         {"org_repo_file", "llama.cpp"},
                                                         {"DeepSeek", "KTransformers"}}));
}

TEST_F(LocalModelsTest, RemovesOnlyWhatGraftManages) {
  cache_file("org/repo", "m-Q4_K_M.gguf", "1");
  cache_file("org/repo", "m-Q8_0.gguf", "22");
  add_ollama(env_.ollama_store, "pulled:1b");
  add_ollama(home_ / ".ollama/models", "other");
  write(".lmstudio/models/pub/repo/lm-Q4_0.gguf", "4");
  write("models/host/big-00001-of-00002.gguf", "55");
  write("models/host/big-00002-of-00002.gguf", "55");
  EXPECT_EQ(remove_model("org/repo:Q8_0", env_), 2U);
  EXPECT_EQ(remove_model("pulled:1b", env_), 7U);
  EXPECT_EQ(remove_model("big", env_), 4U);
  for (const char* name : {"lm-Q4_0", "other", "other:latest"})
    EXPECT_THROW(remove_model(name, env_), Error) << name;
  EXPECT_THROW(remove_model("pulled:1b", env_), Error);
  EXPECT_THROW(remove_model("hf:org/none", env_), Error);
  EXPECT_EQ(found().size(), 3U);
  EXPECT_EQ(remove_model("org/repo", env_), 1U);
  EXPECT_FALSE(fs::exists(env_.hf_cache / "models--org--repo"));
}

TEST(HubEnvironment, KnowsTheFoldersOfOllama) {
  Environment env = read_environment();
  const std::vector<fs::path> stores = ollama_stores(env);
  EXPECT_EQ(stores.front(), env.ollama_store);
  const fs::path service = "/usr/share/ollama/.ollama/models";
  EXPECT_EQ(std::ranges::count(stores, service), 1);
  env.ollama_store = service;  // OLLAMA_MODELS
  EXPECT_EQ(ollama_stores(env).front(), service);
  EXPECT_EQ(std::ranges::count(ollama_stores(env), service), 1);
}

}  // namespace
}  // namespace graft::hub
