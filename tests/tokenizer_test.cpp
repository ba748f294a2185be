// Compares the tokenizer of a model before and after conversion.

#include "graft/tokenizer/tokenizer.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/formats/read_tokenizer.h"
#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

TEST(Tokenizer, SurvivesConversion) {
  const auto sprout = sprout_checkpoint();
  const TempDir folder;
  const std::string gguf = folder / "sprout.gguf";
  ASSERT_EQ(run_program({"convert", sprout.string(), gguf}).exit_code, 0);
  const tokenizer::Tokenizer before(formats::read_tokenizer(sprout));
  const tokenizer::Tokenizer after(formats::read_tokenizer(gguf));

  std::ifstream in(sprout / "val.txt", std::ios::binary);
  const std::string prose(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(before.encode(prose), after.encode(prose));
  EXPECT_EQ(after.decode(after.encode(prose)), prose);
  const Json reference = read_json_file(sprout / "reference.json");
  for (const Json& prompt : reference["prompts"]) {
    EXPECT_EQ(after.encode(prompt["prompt"].get<std::string>()),
              prompt["prompt_ids"].get<std::vector<tokenizer::TokenId>>());
    EXPECT_EQ(after.decode(prompt["greedy_ids"].get<std::vector<tokenizer::TokenId>>(), true),
              prompt["greedy_text"].get<std::string>());
  }
}

TEST(Inspect, DescribesAVocabularyWithoutAModel) {
  const auto path = test_data("tokenizers/llama-spm.gguf");
  const Outcome text = run_program({"inspect", path.string()});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("664 tokens, llama"), std::string::npos) << text.out;
  const Outcome json = run_program({"inspect", "--json", path.string()});
  EXPECT_EQ(parse_json(json.out, "inspect")["tokenizer"]["tokens"], 664);
}

}  // namespace
}  // namespace graft::tests
