#include "graft/testing/golden.h"

#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/testing/shared_data.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

std::string read_bytes(const fs::path& path) {
  std::string bytes(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  return bytes;
}

std::string sha256(const std::string& bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += kDigits[digest[i] >> 4U];
    text += kDigits[digest[i] & 15U];
  }
  return text;
}

// SHA256SUMS as sha256sum writes it: a sum and a path per line.
std::map<std::string, std::string> expected_sums() {
  std::ifstream in(test_data("golden/SHA256SUMS"));
  std::map<std::string, std::string> sums;
  for (std::string sum, path; in >> sum >> path;)
    sums[path] = sum;
  return sums;
}

TEST(Golden, WeightsMatchTheChecksums) {
  const auto sums = expected_sums();
  EXPECT_EQ(sums.size(), golden_checkpoints().size() + golden_adapters().size());
  for (const fs::path& folder : golden_checkpoints()) {
    const std::string file = folder.filename().string() + "/model.safetensors";
    ASSERT_TRUE(sums.contains(file)) << file << " is not in SHA256SUMS";
    EXPECT_EQ(sha256(read_bytes(folder / "model.safetensors")), sums.at(file)) << file;
  }
  for (const fs::path& folder : golden_adapters()) {
    const std::string file = folder.filename().string() + "/adapter_model.safetensors";
    ASSERT_TRUE(sums.contains(file)) << file << " is not in SHA256SUMS";
    EXPECT_EQ(sha256(read_bytes(folder / "adapter_model.safetensors")), sums.at(file)) << file;
  }
}

// The files that the references were computed from.
TEST(Golden, WeightsMatchTheSharedFilesByteForByte) {
  if (!fs::exists(shared_data("golden"))) return;  // SHA256SUMS has their sums
  for (const auto& entry : fs::directory_iterator(shared_data("golden"))) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename().string();
    for (const auto& file : fs::directory_iterator(entry.path())) {
      if (file.path().filename() == "weights.json") continue;
      const std::string got = read_bytes(golden_checkpoint(name) / file.path().filename());
      EXPECT_TRUE(got == read_bytes(file.path())) << file.path();
    }
  }
}

TEST(Golden, OtherRecipesGiveOtherWeights) {
  const TempDir temporary;
  fs::create_directory(temporary / "llama");
  Json json = read_json_file(test_data("golden/llama/weights.json"));
  json["seed"] = json["seed"].get<std::uint64_t>() + 1;
  std::ofstream(temporary / "llama/weights.json") << json.dump();
  write_checkpoint(temporary / "llama", temporary / "written");
  const std::string got = read_bytes(temporary / "written/model.safetensors");
  EXPECT_EQ(got.size(), read_bytes(golden_checkpoint("llama") / "model.safetensors").size());
  EXPECT_NE(sha256(got), expected_sums().at("llama/model.safetensors"));
}

TEST(Golden, AFinishedFolderIsNotWrittenAgain) {
  const fs::path file = golden_checkpoint("qwen2") / "model.safetensors";
  const auto written = fs::last_write_time(file);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([] { golden_checkpoint("qwen2"); });
  }
  EXPECT_EQ(golden_checkpoint("qwen2") / "model.safetensors", file);
  EXPECT_EQ(fs::last_write_time(file), written);
}

TEST(Sprout, IsWrittenInShardsWithAnIndex) {
  const fs::path folder = sprout_checkpoint();
  const Json index = read_json_file(folder / "model.safetensors.index.json");
  EXPECT_EQ(index.at("metadata").at("total_size"), 93100352);
  std::set<std::string> files;
  for (const auto& [tensor, file] : index.at("weight_map").items())
    files.insert(file.get<std::string>());
  EXPECT_EQ(files, (std::set<std::string>{"model-00001-of-00003.safetensors",
                                          "model-00002-of-00003.safetensors",
                                          "model-00003-of-00003.safetensors"}));
  for (const std::string& file : files)
    EXPECT_TRUE(fs::exists(folder / file)) << file;
  EXPECT_TRUE(fs::exists(folder / "tokenizer.json"));
}

}  // namespace
}  // namespace graft
