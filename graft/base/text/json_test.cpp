#include "graft/base/text/json.h"

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

TEST(Json, RejectsDuplicateKeysWithinOneObject) {
  EXPECT_EQ(error_of(R"({"a": {"k": 1}, "b": {"k": 1}})"), "");
  EXPECT_EQ(error_of(R"({"a": {"k": 1, "k": 2}})"), "x.json: duplicate JSON key \"k\"");
}

TEST(OrderedJson, KeepsTheOrderOfKeysAndIsStrict) {
  const OrderedJson json = parse_ordered_json(R"({"b": 1, "a": {"z": [1, {}], "y": 2}})", "x");
  EXPECT_EQ(json.dump(), R"({"b":1,"a":{"z":[1,{}],"y":2}})");
  EXPECT_THROW(parse_ordered_json(R"({"a": 1, "a": 2})", "x"), Error);
  EXPECT_THROW(parse_ordered_json("{} x", "x"), Error);
  EXPECT_THROW(parse_ordered_json(std::string(1000, '['), "x"), Error);
  EXPECT_EQ(parse_ordered_json(R"({"a": {"k": 1}, "b": {"k": 1}})", "x").size(), 2U);
}

TEST(OrderedJson, ReadsAHundredThousandKeys) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i)
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{}";
  EXPECT_EQ(parse_ordered_json(text + "}", "x").size(), 100000U);
}

// A parser that is quadratic in the siblings needs minutes for this.
TEST(Json, ReadsAHundredThousandSiblings) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{\"shape\":[1,{}]}";
  }
  const Json json = parse_json(text + "}", "x.json");
  EXPECT_EQ(json.size(), 100000U);
  EXPECT_EQ(json["99999"]["shape"][0], 1);
}

TEST(Json, LimitsTheNumberOfValues) {
  const std::string text = R"({"a": [1, 2], "b": null})";  // five values with the array and object
  EXPECT_EQ(parse_ordered_json(text, "x", 5).size(), 2U);
  try {
    parse_ordered_json(text, "x", 4);
    FAIL() << "expected an Error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "x: JSON with more than 4 values");
  }
}

TEST(Json, RejectsTrailingTextTruncationAndDepth) {
  EXPECT_NE(error_of("{} {}").find("x.json: not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("{\"a\": [1,").find("x.json: not valid JSON"), std::string::npos);
  EXPECT_EQ(error_of(std::string(100000, '[')), "x.json: JSON nested deeper than 128");
}

}  // namespace
}  // namespace graft
