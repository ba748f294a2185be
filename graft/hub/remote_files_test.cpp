#include "graft/hub/remote_files.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::hub {
namespace {

std::vector<RemoteFile> files(const std::vector<std::string>& paths) {
  std::vector<RemoteFile> list;
  for (const std::string& path : paths)
    list.push_back({.path = path, .size = 10});
  return list;
}

const std::vector<std::string> kGguf = {"README.md",
                                        "config.json",
                                        "m-BF16.gguf",
                                        "m-IQ4_XS.gguf",
                                        "m-Q4_K_M.gguf",
                                        "m-UD-Q4_K_M.gguf",
                                        "m-Q4_K.gguf",
                                        "mmproj-F16.gguf",
                                        "Q8_0/m-Q8_0-00001-of-00002.gguf",
                                        "Q8_0/m-Q8_0-00002-of-00002.gguf",
                                        "Q6_K/m-Q6_K-00001-of-00002.gguf"};

std::string message_of(const std::vector<std::string>& paths, const std::string& selector) {
  try {
    choose_files(files(paths), selector, "org/repo");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ChooseFiles, TakesTheTypeAsAWholeWord) {
  EXPECT_EQ(choose_files(files(kGguf), "q4_k_m", "").main, "m-Q4_K_M.gguf");
  EXPECT_EQ(choose_files(files(kGguf), "Q4_K", "").main, "m-Q4_K.gguf");
  EXPECT_EQ(choose_files(files(kGguf), "UD-Q4_K_M", "").main, "m-UD-Q4_K_M.gguf");
  EXPECT_NE(message_of(kGguf, "Q4_XS").find("no GGUF file of type Q4_XS"), std::string::npos);
}

TEST(ChooseFiles, TakesAllPartsOfASplitFile) {
  const ChosenFiles chosen = choose_files(files(kGguf), "Q8_0", "");
  EXPECT_EQ(chosen.files.size(), 2U);
  EXPECT_EQ(chosen.main, "Q8_0/m-Q8_0-00001-of-00002.gguf");
  EXPECT_EQ(chosen.bytes(), 20U);
  // Any part names the model.
  EXPECT_EQ(choose_files(files(kGguf), "m-Q8_0-00002-of-00002.gguf", "").main, chosen.main);
  EXPECT_NE(message_of(kGguf, "Q6_K").find("1 of 2 parts exist"), std::string::npos);
}

TEST(ChooseFiles, DefaultsToTheUsualTypeThenToTheOnlyFile) {
  EXPECT_EQ(choose_files(files(kGguf), "", "").main, "m-Q4_K_M.gguf");
  EXPECT_EQ(choose_files(files({"m-BF16.gguf", "m-Q8_0.gguf"}), "", "").main, "m-Q8_0.gguf");
  EXPECT_EQ(choose_files(files({"model.gguf"}), "", "").main, "model.gguf");
  EXPECT_NE(message_of({"a.gguf", "b.gguf"}, "").find("choose one with :FILE: a (10 B), b"),
            std::string::npos);
}

TEST(ChooseFiles, TakesAFolderOfSafetensors) {
  const ChosenFiles chosen = choose_files(
      files({"config.json", "model-00001-of-00001.safetensors", "consolidated.safetensors",
             "model.safetensors.index.json", "tokenizer.json", "merges.txt", "chat_template.jinja",
             "tokenizer.model", "original/params.json", "pytorch_model.bin", "README.md"}),
      "", "org/repo");
  std::vector<std::string> paths;
  for (const RemoteFile& file : chosen.files)
    paths.push_back(file.path);
  EXPECT_EQ(paths,
            (std::vector<std::string>{"config.json", "model-00001-of-00001.safetensors",
                                      "model.safetensors.index.json", "tokenizer.json",
                                      "merges.txt", "chat_template.jinja", "tokenizer.model"}));
  EXPECT_TRUE(chosen.main.empty());
}

TEST(ChooseFiles, RejectsRepositoriesWithoutAModel) {
  EXPECT_NE(message_of({"README.md", "pytorch_model.bin"}, "").find("no model"), std::string::npos);
  EXPECT_NE(message_of({"config.json", "model.safetensors"}, "Q4_K_M").find("no GGUF files"),
            std::string::npos);
  EXPECT_NE(message_of(kGguf, "other.gguf").find("no file other.gguf"), std::string::npos);
}

}  // namespace
}  // namespace graft::hub
