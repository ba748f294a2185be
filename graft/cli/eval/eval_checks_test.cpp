#include "graft/cli/eval/eval_checks.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"
#include "graft/testing/shared_data.h"

namespace graft::cli {
namespace {

TEST(EvalChecks, EachCheckAcceptsAndRejects) {
  EXPECT_TRUE(is_right("exact", "a b", " a b\n"));
  EXPECT_FALSE(is_right("exact", "a b", "a  b"));
  EXPECT_TRUE(is_right("num", "63", "62 + 1 = 63."));
  EXPECT_TRUE(is_right("num", "-4", "It is -4"));
  EXPECT_TRUE(is_right("num", "4", "9-4"));
  EXPECT_FALSE(is_right("num", "4", "none"));
  EXPECT_TRUE(is_right("contains", "cat", "The cat."));
  EXPECT_FALSE(is_right("contains", "cat", "a wild-cat, concatenated"));
  EXPECT_TRUE(is_right("contains", "orry", "Sorry, no."));
  EXPECT_TRUE(is_right("contains_ci", "PARIS", "It is Paris."));
  EXPECT_TRUE(is_right("lastword", "bad", "The opposite is bad."));
  EXPECT_FALSE(is_right("lastword", "ad", "bad"));
  EXPECT_TRUE(is_right("json", R"({"a": 1, "b": [2]})", R"({ "b": [2], "a": 1 })"));
  EXPECT_FALSE(is_right("json", R"({"a": 1})", "{"));
  const char* call = "<tool_call>\n{\"name\": \"f\"}\n</tool_call>";
  EXPECT_TRUE(is_right("tool", call, "<tool_call>{\"name\":\"f\"}</tool_call>"));
  EXPECT_FALSE(is_right("tool", call, "Sure: <tool_call>{\"name\":\"f\"}</tool_call>"));
  std::string story = "A fox";
  for (int i = 0; i < 60; ++i)
    story += " ran";
  EXPECT_TRUE(is_right("story", {"Fox", "ran"}, story));
  EXPECT_FALSE(is_right("story", {"cow"}, story));
  EXPECT_FALSE(is_right("story", {"fox"}, "A fox."));
  EXPECT_TRUE(is_right("num", "5", "<think>\n2 + 3\nis 6 or\n</think>\n5"));
  EXPECT_THROW(is_right("vibes", "x", "x"), Error);
  EXPECT_THROW(is_right("exact", 7, "x"), Error);
}

// The evaluation set lists an answer and the expected verdict for each question.
TEST(EvalChecks, MatchTheVerdictsOfTheEvaluationSet) {
  const auto path = test_data("sprout/eval.jsonl");
  const MappedFile file(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  int num_checked = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const Json record = Json::parse(line);
    EXPECT_EQ(is_right(record.at("check").get<std::string>(), record.at("answer"),
                       record.at("greedy").get<std::string>()),
              record.at("greedy_ok").get<bool>())
        << line;
    ++num_checked;
  }
  EXPECT_EQ(num_checked, 608);
}

}  // namespace
}  // namespace graft::cli
