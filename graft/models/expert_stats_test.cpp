#include "graft/models/expert_stats.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/str.h"

namespace graft::models {
namespace {

std::string stats_error(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
  try {
    read_expert_stats(path);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(ExpertStats, AreReadAsWritten) {
  const TempDir folder;
  const std::filesystem::path path = folder.path() / "stats.json";
  EXPECT_TRUE(read_expert_stats(path).empty());  // does not exist
  const ExpertPairs pairs = {{"model.layers.0.mlp.experts", {3, 0, 18446744073709551615U}},
                             {"model.layers.1.mlp.experts", {}}};
  write_expert_stats("first", pairs, path);
  write_expert_stats("second", {}, path);
  EXPECT_EQ(read_expert_stats(path), (ExpertStats{{"first", pairs}, {"second", {}}}));
  write_expert_stats("first", {}, path);
  EXPECT_EQ(read_expert_stats(path), (ExpertStats{{"first", {}}, {"second", {}}}));
}

TEST(ExpertStats, EarlierRunsCountHalf) {
  const ExpertPairs before = {{"a", {10, 3}}, {"b", {8}}};
  EXPECT_EQ(merge_pairs(before, {{"a", {.pairs = {1, 1}}}, {"c", {.pairs = {5}}}}),
            (ExpertPairs{{"a", {6, 2}}, {"b", {4}}, {"c", {5}}}));
}

TEST(ExpertStats, RejectOtherFiles) {
  const TempDir folder;
  const std::filesystem::path path = folder.path() / "stats.json";
  const std::string where = path.string();
  EXPECT_NE(stats_error(path, "no json"), "");
  EXPECT_EQ(stats_error(path, "[]"), where + ": not a file of expert statistics of version 1");
  EXPECT_EQ(stats_error(path, R"({"version": 2})"),
            where + ": not a file of expert statistics of version 1");
  EXPECT_EQ(stats_error(path, R"({"version": 1})"), where + ": models must be an object");
  EXPECT_EQ(stats_error(path, R"({"version": 1, "models": {"n": 3}})"),
            where + ": a model must be an object");
  EXPECT_EQ(stats_error(path, R"({"version": 1, "models": {"n": {"m": 3}}})"),
            where + ": pairs of m must be an array");
  for (const char* value : {"-1", "1.5", "\"2\"", "null", "1e30"}) {
    EXPECT_EQ(stats_error(path, str(R"({"version": 1, "models": {"n": {"m": [)", value, "]}}}")),
              where + ": pairs of m must be integers from 0 on");
  }
  EXPECT_THROW(write_expert_stats("n", {}, folder.path() / "missing" / "stats.json"), Error);
}

}  // namespace
}  // namespace graft::models
