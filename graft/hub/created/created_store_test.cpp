#include "graft/hub/created/created_store.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/hub/environment.h"
#include "graft/hub/local_models.h"

namespace graft::hub {
namespace {

TEST(CreatedStore, KeepsWhatAModelChanges) {
  const TempDir folder;
  const CreatedStore store(folder.path() / "created");
  EXPECT_TRUE(store.list().empty());
  const std::filesystem::path path = store.write({.name = created_name("Mario"),
                                                  .weights = "/weights.gguf",
                                                  .from = "base",
                                                  .system = "You are Mario.",
                                                  .messages = {{{"role", "user"}}},
                                                  .parameters = {{"temperature", 0.5}}});
  EXPECT_EQ(path, folder.path() / "created/library/Mario/latest.graft");
  const auto found = store.find("Mario:latest");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->model.name, "Mario:latest");
  EXPECT_EQ(found->model.system, "You are Mario.");
  EXPECT_EQ(found->model.parameters["temperature"], 0.5);
  EXPECT_EQ(found->model.messages.size(), 1U);
  EXPECT_EQ(formats::weights_path(path), "/weights.gguf");
  EXPECT_EQ(store.users_of("/weights.gguf").size(), 1U);
  EXPECT_TRUE(store.remove("Mario"));
  EXPECT_FALSE(store.remove("Mario"));
  EXPECT_TRUE(store.list().empty());
}

TEST(CreatedStore, RefusesNamesThatLeaveTheFolder) {
  for (const char* name : {"", "../x", "a/../b", "a/b/c", "x:../y", "/x", "a b", "hf.co/a/b"})
    EXPECT_THROW(created_name(name), Error) << name;
  EXPECT_EQ(created_name("library/mario"), "mario:latest");
  EXPECT_EQ(created_name("user/mario:v2"), "user/mario:v2");
}

TEST(CreatedStore, SkipsMalformedFiles) {
  const TempDir folder;
  std::filesystem::create_directories(folder.path() / "library/m");
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder.path() / "library/m" / name) << text;
  };
  write("version.graft", R"({"graft_model": 2, "name": "m", "weights": "/w"})");
  write("relative.graft", R"({"graft_model": 1, "name": "m", "weights": "w"})");
  write("loop.graft", R"({"graft_model": 1, "name": "m", "weights": "/a.graft"})");
  write("text.graft", "text");
  EXPECT_TRUE(CreatedStore(folder.path()).list().empty());
  EXPECT_THROW(CreatedStore(folder.path()).find("m:loop"), Error);
}

TEST(CreatedStore, WeightsInUseAreNotRemoved) {
  const TempDir folder;
  Environment env;
  env.models = folder.path() / "models";
  env.created = folder.path() / "created";
  std::filesystem::create_directories(env.models);
  std::ofstream(env.models / "base.gguf") << "weights";
  const CreatedStore store(env.created);
  store.write({.name = "mario:latest", .weights = env.models / "base.gguf"});
  EXPECT_THROW(remove_model("base", env), Error);
  const auto models = find_local_models(env);
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].name, "mario:latest");
  EXPECT_EQ(models[0].bytes, 7U);
  remove_model("mario", env);
  EXPECT_EQ(remove_model("base", env), 7U);
}

}  // namespace
}  // namespace graft::hub
