#include "graft/cli/run/run_batch.h"

#include <fstream>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"

namespace graft::cli {
namespace {

class ReadBatch : public ::testing::Test {
 protected:
  std::vector<BatchLine> read(const std::string& text, bool raw = false) const {
    std::ofstream(file_) << text;
    SamplingOptions sampling;
    sampling.temperature = 0.25;
    sampling.system = "Be brief.";
    return read_batch(file_, sampling, raw);
  }
  // The error message without the file name.
  std::string error_of(const std::string& text) const {
    try {
      read(text);
    } catch (const Error& error) {
      return std::string(error.what()).substr(file_.size());
    }
    return "no error";
  }

  TempDir folder_;
  std::string file_ = folder_ / "batch.jsonl";
};

TEST_F(ReadBatch, ReadsPromptsMessagesAndOpenAiFormat) {
  const auto lines = read(
      "{\"prompt\": \"Hi\", \"max_tokens\": 5, \"stop\": \"x\"}\n\n"
      "{\"custom_id\": \"b\", \"body\": {\"model\": \"m\", \"messages\": [{\"role\": \"user\", "
      "\"content\": \"Yo\"}], \"temperature\": 1, \"seed\": 3, \"stop\": [\"a\", \"b\"]}}");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].prompt, "Hi");
  EXPECT_EQ(lines[0].conversation.messages.size(), 2U);  // the system prompt
  EXPECT_EQ(lines[0].params.max_tokens, 5);
  EXPECT_EQ(lines[0].params.temperature, 0.25);
  EXPECT_EQ(lines[0].params.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(lines[1].id, "b");
  EXPECT_EQ(lines[1].conversation.messages.size(), 1U);
  EXPECT_EQ(lines[1].params.temperature, 1);
  EXPECT_EQ(lines[1].params.seed, 3U);
  EXPECT_EQ(lines[1].params.stop.size(), 2U);
  EXPECT_TRUE(read("{\"prompt\": \"Hi\"}", true)[0].raw);
}

TEST_F(ReadBatch, ErrorsNameTheLine) {
  EXPECT_EQ(error_of(" \n"), ": no requests in the file");
  EXPECT_EQ(error_of("{\"prompt\": \"a\"}\n\n[1]"), ":3: expected an object, got array");
  EXPECT_EQ(error_of("{}"), ":1: expected either \"prompt\" or \"messages\"");
  EXPECT_EQ(error_of("{\"prompt\": \"a\", \"colour\": 1}"), ":1: unknown key \"colour\"");
  EXPECT_EQ(error_of("{\"prompt\": \"a\", \"n\": 2}"), ":1: \"n\" must be 1");
  EXPECT_TRUE(error_of("{\"prompt\": 5}").starts_with(":1: "));
  EXPECT_TRUE(error_of("{\"prompt\": ").starts_with(":1"));
  EXPECT_TRUE(error_of("{\"prompt\": \"a\", \"seed\": \"x\"}").starts_with(":1: "));
}

}  // namespace
}  // namespace graft::cli
