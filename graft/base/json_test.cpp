#include "graft/base/json.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_json(text, "x.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Json, ReadsNestedValues) {
  const Json json = parse_json(R"({"a": [1, {"b": 2.5}], "c": {"b": null}})", "x.json");
  EXPECT_EQ(json["a"][1]["b"], 2.5);
  EXPECT_TRUE(json["c"]["b"].is_null());
}

TEST(Json, RefusesDuplicateKeysOfOneObjectOnly) {
  EXPECT_EQ(error_of(R"({"a": {"k": 1}, "b": {"k": 1}})"), "");
  EXPECT_EQ(error_of(R"({"a": {"k": 1, "k": 2}})"), "x.json: JSON key \"k\" comes twice");
}

TEST(Json, RefusesTrailingTextTruncationAndDepth) {
  EXPECT_NE(error_of("{} {}").find("x.json: not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("{\"a\": [1,").find("x.json: not valid JSON"), std::string::npos);
  EXPECT_EQ(error_of(std::string(100000, '[')), "x.json: JSON nested deeper than 128");
}

}  // namespace
}  // namespace graft
