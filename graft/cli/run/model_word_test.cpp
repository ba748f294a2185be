#include "graft/cli/run/model_word.h"

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/testing/formats.h"

namespace graft::cli {
namespace {

TEST(ModelWord, NamesOfModelsAreToldFromPrompts) {
  for (const char* word :
       {"llama3.2", "qwen2.5:7b", "org/repo", "org/repo:Q4_K_M", "phi-4", "mistral", "Mistral"})
    EXPECT_TRUE(looks_like_model(word)) << word;
  for (const char* word : {"hello", "12+30", "42", "Why?", "", "and:", "What is 2"})
    EXPECT_FALSE(looks_like_model(word)) << word;
}

TEST(ModelWord, NamesOfHubsNeedNoGuess) {
  for (const char* word : {"ollama:llama3.2", "hf:org/repo", "ms:org/repo", "hf.co/org/repo",
                           "https://example.org/m.gguf?download=1"})
    EXPECT_TRUE(names_remote_model(word)) << word;
  for (const char* word : {"org/repo", "ollama:", "https://example.org", "hello"})
    EXPECT_FALSE(names_remote_model(word)) << word;
  EXPECT_EQ(download_name("org/repo:Q8_0"), "org/repo:Q8_0");
  EXPECT_EQ(download_name("mistral"), "ollama:mistral");
}

TEST(ModelWord, FilesFoldersAndNamesAreModels) {
  const TempDir folder;
  formats::test::write_file(folder / "Tiny.gguf", "GGUF");
  const api::Catalog catalog({folder.path()});
  EXPECT_TRUE(names_local_model("tiny", catalog));
  EXPECT_TRUE(names_local_model(folder / "Tiny.gguf", catalog));
  EXPECT_FALSE(names_local_model("other", catalog));
}

}  // namespace
}  // namespace graft::cli
