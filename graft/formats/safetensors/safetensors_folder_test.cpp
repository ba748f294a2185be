#include "graft/formats/safetensors/safetensors_folder.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/formats/safetensors/safetensors_writer.h"
#include "graft/testing/formats.h"

namespace graft::formats {
namespace {

using test::error_of;
using test::pattern;

constexpr const char* kIndex = "model.safetensors.index.json";

void write_shard(const std::filesystem::path& path, const std::vector<std::string>& names) {
  std::vector<TensorSpec> specs;
  specs.reserve(names.size());
  for (const std::string& name : names)
    specs.push_back({name, DType::F32, {2}});
  SafetensorsWriter writer(path, {}, specs);
  for (std::size_t i = 0; i < names.size(); ++i)
    writer.append(pattern(8, static_cast<unsigned>(i)));
  writer.finish();
}

// Shards s1 with a, b and s2 with c, and an index of the given map.
std::string index_error(const Json& weight_map) {
  const TempDir folder;
  write_shard(folder / "s1", {"a", "b"});
  write_shard(folder / "s2", {"c"});
  test::write_file(folder / kIndex, Json{{"weight_map", weight_map}}.dump());
  std::string error = error_of([&] { SafetensorsFolder{folder.path()}; });
  const std::string prefix = (folder / "").string();
  for (auto at = error.find(prefix); at != std::string::npos; at = error.find(prefix)) {
    error.erase(at, prefix.size());
  }
  return error;
}

TEST(SafetensorsFolder, OpensOneFile) {
  const TempDir folder;
  EXPECT_FALSE(SafetensorsFolder::is_one(folder.path()));
  EXPECT_EQ(
      error_of([&] { SafetensorsFolder{folder.path()}; }),
      folder.path().string() + ": has neither model.safetensors nor model.safetensors.index.json");
  write_shard(folder / "model.safetensors", {"w"});
  EXPECT_TRUE(SafetensorsFolder::is_one(folder.path()));
  const SafetensorsFolder weights(folder.path());
  ASSERT_EQ(weights.tensors().size(), 1U);
  EXPECT_EQ(weights.paths(), std::vector{folder / "model.safetensors"});
  weights.release(weights.tensors()[0]);
}

TEST(SafetensorsFolder, OpensShardsSortedByName) {
  const TempDir folder;
  std::filesystem::create_directory(folder / "sub");
  write_shard(folder / "s2", {"z", "y"});
  write_shard(folder / "s1", {"b"});
  write_shard(folder / "sub/s3", {"a"});
  const Json map = {{"z", "s2"}, {"y", "s2"}, {"b", "s1"}, {"a", "sub/s3"}};
  test::write_file(folder / kIndex, Json{{"metadata", {}}, {"weight_map", map}}.dump());
  const SafetensorsFolder weights(folder.path());
  std::vector<std::string> names;
  for (const TensorInfo& tensor : weights.tensors()) {
    names.push_back(tensor.name);
    weights.release(tensor);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"b", "z", "y", "a"}));
  EXPECT_EQ(weights.paths().size(), 3U);
  EXPECT_TRUE(std::ranges::equal(weights.tensors()[2].data, pattern(8, 1)));
}

TEST(SafetensorsFolder, RejectsAnIndexThatContradictsItsShards) {
  EXPECT_EQ(index_error({{"a", "s1"}, {"b", "s1"}, {"c", "s2"}}), "");
  EXPECT_EQ(index_error({{"a", "s1"}, {"c", "s2"}}),
            "s1: tensor \"b\" is not in model.safetensors.index.json");
  EXPECT_EQ(index_error({{"a", "s1"}, {"b", "s2"}, {"c", "s2"}}),
            "s1: tensor \"b\" is in this shard, model.safetensors.index.json names s2");
  EXPECT_EQ(
      index_error({{"a", "s1"}, {"b", "s1"}, {"c", "s2"}, {"d", "s2"}}),
      "s2: has 1 of the 2 tensors that model.safetensors.index.json names; the first missing is "
      "\"d\"");
}

TEST(SafetensorsFolder, NamesTheMissingShards) {
  EXPECT_EQ(index_error({{"a", "s1"}, {"b", "s8"}, {"c", "s9"}}),
            "model.safetensors.index.json: 2 of 3 shards missing: s8, s9");
}

TEST(SafetensorsFolder, RejectsShardsOutsideTheFolder) {
  for (const char* shard : {"../s1", "/etc/passwd", "sub/../../s1", "..", "", "a\nb"}) {
    EXPECT_NE(index_error({{"a", shard}}).find("is not a file inside the folder"),
              std::string::npos)
        << shard;
  }
}

TEST(SafetensorsFolder, RejectsAnInvalidIndex) {
  EXPECT_EQ(index_error(3), "model.safetensors.index.json: has no weight_map object");
  EXPECT_EQ(index_error(Json::object()), "model.safetensors.index.json: the weight_map is empty");
  EXPECT_EQ(index_error({{"a", 1}}),
            "model.safetensors.index.json: weight_map \"a\" is number, expected a file name");
}

// As many tensors and shards as DeepSeek-V3 has: a quadratic step would take minutes.
TEST(SafetensorsFolder, OpensManyShards) {
  const TempDir folder;
  Json map = Json::object();
  for (int shard = 0; shard < 163; ++shard) {
    const std::string file = str("model-", shard, ".safetensors");
    std::vector<std::string> names;
    for (int i = 0; i < 560; ++i) {
      names.push_back(str("model.layers.", shard, ".mlp.experts.", i, ".gate_proj.weight"));
      map[names.back()] = file;
    }
    write_shard(folder / file, names);
  }
  test::write_file(folder / kIndex, Json{{"weight_map", map}}.dump());
  EXPECT_EQ(SafetensorsFolder(folder.path()).tensors().size(), 163U * 560U);
}

}  // namespace
}  // namespace graft::formats
