#include "graft/server/sequences/request.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "graft/server/api_error.h"
#include "graft/server/generation/running.h"

namespace graft::server::sequences {
namespace {

int status_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const ApiError& error) {
    return error.status;
  }
  return 200;
}

TEST(SequenceRequest, PathsHaveAnIdAndAnAction) {
  EXPECT_EQ(read_path("/v1/sequences/req-1/save").id, "req-1");
  EXPECT_TRUE(read_path("/v1/sequences/req-1/save").is_save);
  EXPECT_FALSE(read_path("/v1/sequences/save/restore").is_save);
  EXPECT_EQ(read_path("/v1/sequences/a/b/save").id, "a/b");
  for (const char* path : {"/v1/sequences/", "/v1/sequences/save", "/v1/sequences//save",
                           "/v1/sequences/one", "/v1/sequences/one/delete", "/v1/seq"})
    EXPECT_EQ(status_of([&] { read_path(path); }), 404) << path;
}

TEST(SequenceRequest, FileNamesStayInTheFolder) {
  for (const char* name : {"req-1", "a.b_C-9", "x"})
    EXPECT_EQ(status_of([&] { check_filename(name); }), 200) << name;
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("../x"), std::string("a/b"),
        std::string("/etc/passwd"), std::string("a\\b"), std::string(".hidden"), std::string("a b"),
        std::string("a\0b", 3), std::string("\xc3\xa4"), std::string(129, 'a')})
    EXPECT_EQ(status_of([&] { check_filename(name); }), 400) << name;
}

TEST(SequenceRequest, FieldsAreChecked) {
  const SaveRequest save =
      read_save(OrderedJson::parse(R"({"filename": "f", "prompt": 2, "sample": 1})"));
  EXPECT_EQ(save.filename, "f");
  EXPECT_EQ(save.prompt, 2);
  EXPECT_EQ(save.sample, 1);
  const RestoreRequest restore = read_restore(OrderedJson::parse(
      R"({"model": "m", "echo": true, "stream": true, "stream_options": {"include_usage": true}})"));
  EXPECT_EQ(restore.model, "m");
  EXPECT_TRUE(restore.filename.empty());
  EXPECT_TRUE(restore.echo && restore.is_stream && restore.include_usage);
  for (const char* body : {R"({"sample": -1})", R"({"file": "f"})", R"({"prompt": "0"})"})
    EXPECT_EQ(status_of([&] { read_save(OrderedJson::parse(body)); }), 400) << body;
  for (const char* body : {R"({"max_tokens": 5})", R"({"stream_options": {}})", R"({"echo": 1})"})
    EXPECT_EQ(status_of([&] { read_restore(OrderedJson::parse(body)); }), 400) << body;
}

TEST(RunningGenerations, AreListedUntilTheirHandleIsDestroyed) {
  RunningGenerations running;
  const auto first = running.add({.id = "a"});
  {
    const auto second = running.add({.id = "b"});
    ASSERT_EQ(running.list().size(), 2U);
    EXPECT_EQ(running.list().front().id, "a");
  }
  ASSERT_EQ(running.list().size(), 1U);
  EXPECT_EQ(running.list().front().id, "a");
}

}  // namespace
}  // namespace graft::server::sequences
