// `graft template` end to end.

#include <algorithm>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "graft/testing/golden.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

class TemplateCommand : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  Outcome run(const std::string& source, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"template", "--template", file("t.jinja", source),
                                          "--messages", messages_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }

  TempDir folder_;
  std::string messages_ = file("m.json", R"([{"role": "user", "content": "Hi"}])");
};

void expect_template_error(const Outcome& outcome, const std::string& part) {
  expect_user_error(outcome, part);
  EXPECT_EQ(outcome.out, "");
}

TEST_F(TemplateCommand, PrintsOnlyThePrompt) {
  const std::string source =
      "{{ bos_token }}{{ messages[0].content }}{{ x }}{{ tools }}{{ add_generation_prompt }}";
  EXPECT_EQ(run(source, {}).out, "HiNoneTrue");
  EXPECT_EQ(run(source, {"--bos", "<s>", "--set", "x=[1, null]", "--no-generation-prompt"}).out,
            "<s>Hi[1, None]NoneFalse");
  EXPECT_EQ(run(source, {"--tools", file("tools.json", R"([{"b": 1, "a": 2}])")}).out,
            "Hi[{'b': 1, 'a': 2}]True");
  EXPECT_EQ(run("{{ a }}{{ b }}", {"--set", "a=1", "--set", "b=\"x\""}).out, "1x");
}

TEST_F(TemplateCommand, ReadsMessagesAndToolsFromOneFile) {
  const std::string both = file("both.json", R"({"messages": [{"role": "user"}], "tools": ["t"]})");
  const Outcome outcome = run_program(
      {"template", "--template", file("t.jinja", "{{ messages }}{{ tools }}"), "--messages", both});
  EXPECT_EQ(outcome.out, "[{'role': 'user'}]['t']");
}

TEST_F(TemplateCommand, FindsBuiltinTemplatesByName) {
  const Outcome outcome =
      run_program({"template", "--template", "chatml", "--messages", messages_});
  EXPECT_EQ(outcome.out, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(outcome.err, "");
  expect_template_error(run_program({"template", "--template", "zzz", "--messages", messages_}),
                        "chatml, ");
}

TEST_F(TemplateCommand, ErrorsAreOneLine) {
  expect_template_error(run("a\n{{ 1 + }}", {}), "t.jinja:2: unexpected '}}'");
  expect_template_error(run("a\n{{ raise_exception('no') }}", {}), "t.jinja:2: no");
  expect_template_error(run("{{ raise_exception('two\nlines') }}", {}), "t.jinja:1: two lines");
  expect_template_error(run("", {"--set", "x"}), "--set x: expected KEY=JSON");
  expect_template_error(run("", {"--set", "x={"}), "--set x: not valid JSON");
  EXPECT_EQ(run_program({"template"}).exit_code, 2);
  expect_template_error(
      run_program({"template", "--template", "chatml", "--messages", file("bad.json", "5")}),
      "expected a list of messages, got number");
}

TEST_F(TemplateCommand, UsesTheTemplateAndTokensOfTheModel) {
  const auto sprout = sprout_checkpoint();
  const Outcome outcome = run_program({"template", sprout.string(), "--messages", messages_});
  EXPECT_EQ(outcome.out, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n") << outcome.err;
  const Outcome tokens =
      run_program({"template", sprout.string(), "--messages", messages_, "--template",
                   file("t.jinja", "{{ bos_token is defined }} {{ eos_token }}")});
  EXPECT_EQ(tokens.out, "False <|im_end|>") << tokens.err;
}

}  // namespace
}  // namespace graft::tests
