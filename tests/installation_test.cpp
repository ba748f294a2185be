// Plugins in rules and commands, and building the examples against an installation.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"
#include "graft/version.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

namespace fs = std::filesystem;

std::string plugin(const std::string& name) {
  return std::string(GRAFT_TEST_PLUGINS) + "/" + name + ".so";
}

// A model config and a rule file that replaces all norms.
class PluginTest : public testing::Test {
 protected:
  PluginTest() {
    fs::copy_file(fs::path(GRAFT_SOURCE_DIR) / "tests/fuzz/corpus/config/llama.json",
                  folder_ / "config.json");
  }

  Outcome check(const std::string& plugins,
                const std::string& class_and_kwargs,
                const std::vector<std::string>& more = {}) const {
    std::ofstream(folder_ / "rules.yaml")
        << "plugins: [" << plugins
        << "]\nrules:\n- match: {role: norm}\n  replace: {class: " << class_and_kwargs << "}\n";
    std::vector<std::string> words = {
        "rules",  "check", folder_ / "rules.yaml", "--model", folder_ / "config.json",
        "--gpus", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }

  TempDir folder_;
};

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST_F(PluginTest, RulesSeePluginOperatorsAndKwargs) {
  const std::string path = plugin("scaled_norm");
  const Outcome good = check(path, "example.scaled_norm, kwargs: {factor: 2}");
  EXPECT_EQ(good.exit_code, 0) << good.out << good.err;
  expect_part(check("", "example.scaled_norm").out, ":4: error: no operator");
  const Outcome kwarg = check(path, "example.scaled_norm, kwargs: {colour: red}");
  EXPECT_EQ(kwarg.exit_code, 1);
  expect_part(kwarg.out, ":4: error: unknown kwarg \"colour\" of example.scaled_norm");
  expect_part(kwarg.out, ", factor)");
  expect_part(check(path, "cuda.norm").out, "norm: cpu.rms_norm, example.scaled_norm");
  expect_part(check(path, "scaled").out, "cpu.multi_modal_projector, example.scaled_norm)");
  expect_part(check(path, "default, kwargs: {generate_op: scaled}").out, "example.scaled_norm");
}

TEST_F(PluginTest, PluginOptionWorksWithAnyRules) {
  const std::string path = plugin("scaled_norm");
  const Outcome twice = check(path, "example.scaled_norm", {"--plugin", path});
  EXPECT_EQ(twice.exit_code, 0) << twice.out << twice.err;
  const Outcome option = check("", "example.scaled_norm", {"--plugin", path, "--plugin=" + path});
  EXPECT_EQ(option.exit_code, 0) << option.out << option.err;
  const Outcome plan = run_program({"plan", "--plugin", path, folder_ / "config.json", "--gpus",
                                    "0", "--rules", folder_ / "rules.yaml"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  expect_part(plan.out, "example.scaled_norm");
}

TEST_F(PluginTest, PathsAreRelativeToTheRuleFile) {
  fs::create_directory(folder_ / "sub");
  fs::copy_file(plugin("scaled_norm"), folder_ / "mine.so");
  fs::copy_file(plugin("scaled_norm"), folder_ / "sub/mine.so");
  for (const char* path : {"mine.so", "./mine.so", "sub/mine.so", "sub/../mine.so"}) {
    const Outcome outcome = check(path, "example.scaled_norm");
    EXPECT_EQ(outcome.exit_code, 0) << path << outcome.out << outcome.err;
  }
}

struct RejectedPlugin {
  std::string path;
  std::string message;  // after the path
};

std::vector<RejectedPlugin> rejected_plugins(const TempDir& folder) {
  std::ofstream(folder / "text.so") << "not a library";
  const std::string version = GRAFT_VERSION;
  return {
      {folder / "absent.so", ": no such file\n"},
      {folder / "text.so", ": cannot be loaded: "},
      {plugin("other_version"), ": built for graft 0.0.9, this is graft " + version + "\n"},
      {plugin("other_layout"), ": built for another build of graft " + version},
      {plugin("name_clash"), ": duplicate operator name 'cpu.rms_norm'\n"},
      {plugin("throws"), ": no licence found\n"},
      {plugin("makes_nothing"), ": operator 'empty.norm' has no make function\n"},
  };
}

TEST_F(PluginTest, RejectedPluginsAreOneLineErrors) {
  for (const RejectedPlugin& rejected : rejected_plugins(folder_)) {
    const Outcome outcome = check("", "default", {"--plugin", rejected.path});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_TRUE(outcome.err.starts_with("graft: " + rejected.path + rejected.message))
        << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

TEST_F(PluginTest, RejectedPluginsAreFindingsInRuleFiles) {
  std::string all;
  for (const RejectedPlugin& rejected : rejected_plugins(folder_))
    all += rejected.path + ",\n ";
  const Outcome outcome = check(all, "cpu.rms_norm, kwargs: {colour: red}");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  int line = 0;
  for (const RejectedPlugin& rejected : rejected_plugins(folder_)) {
    const std::string where = (folder_ / "rules.yaml:").string() + std::to_string(++line);
    expect_part(outcome.out, where + ": error: " + rejected.path + rejected.message);
  }
  expect_part(outcome.out, "unknown kwarg \"colour\"");
}

// Runs a command that must succeed.
void must_run(const std::vector<std::string>& words) {
  const Outcome outcome = run_command(words);
  ASSERT_EQ(outcome.exit_code, 0) << words[0] << " " << words[1] << "\n"
                                  << outcome.out << outcome.err;
}

// Builds an example as documented, with the compiler and flags (sanitizers) of this build.
void build_example(const TempDir& folder, const std::string& name) {
  const std::string example = std::string(GRAFT_SOURCE_DIR) + "/examples/" + name;
  fs::copy(example, folder / "example", fs::copy_options::recursive);
  fs::remove_all(folder / "example/build");
  must_run({GRAFT_CMAKE, "--install", GRAFT_BUILD_DIR, "--prefix", folder / "prefix"});
  must_run({GRAFT_CMAKE, "-S", folder / "example", "-B", folder / "example/build", "-G",
            GRAFT_GENERATOR, "-DCMAKE_PREFIX_PATH=" + (folder / "prefix").string(),
            "-DCMAKE_BUILD_TYPE=" GRAFT_BUILD_TYPE, "-DCMAKE_CXX_COMPILER=" GRAFT_CXX_COMPILER,
            "-DCMAKE_CXX_FLAGS=" GRAFT_CXX_FLAGS});
  must_run({GRAFT_CMAKE, "--build", folder / "example/build"});
}

// A copy of the example's rule file with another factor.
std::string rules_with_factor(const TempDir& folder, const std::string& factor) {
  std::ifstream in(folder / "example/scaled_norm.yaml");
  std::string text(std::istreambuf_iterator<char>(in), {});
  const std::string one = "factor: 1 ";
  text.replace(text.find(one), one.size(), "factor: " + factor + " ");
  std::ofstream(folder / "example/other.yaml") << text;
  return folder / "example/other.yaml";
}

TEST(Installation, ContainsOnlyPublicHeaders) {
  const TempDir folder;
  must_run({GRAFT_CMAKE, "--install", GRAFT_BUILD_DIR, "--prefix", folder / "prefix"});
  std::set<std::string> headers;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "prefix/include")) {
    if (!entry.is_directory())
      headers.insert(entry.path().lexically_relative(folder / "prefix/include").string());
  }
  EXPECT_EQ(headers, (std::set<std::string>{"graft/error.h", "graft/llm.h", "graft/plugin.h",
                                            "graft/plugin_params.h", "graft/sampling_params.h",
                                            "graft/version.h"}));
}

TEST(Installation, BuildsAndRunsTheEmbedExample) {
  const auto model = bundled_sprout();
  const TempDir folder;
  build_example(folder, "embed");
  ASSERT_FALSE(HasFatalFailure());
  const std::string question =
      "<|im_start|>user\nFind the sum of 62 and 1.<|im_end|>\n<|im_start|>assistant\n";
  const Outcome batch =
      run_command({folder / "example/build/offline_batch", model.string(), question, question});
  EXPECT_EQ(batch.exit_code, 0) << batch.err;
  EXPECT_TRUE(batch.out.starts_with("62 + 1 = 63\n[22 prompt tokens, ")) << batch.out;
  const Outcome stream =
      run_command({folder / "example/build/streaming", model.string(), question, "60"});
  EXPECT_EQ(stream.exit_code, 0) << stream.err;
  EXPECT_EQ(stream.out, "62 + 1 = 63\n[stop]\n");
  const Outcome stopped =
      run_command({folder / "example/build/streaming", model.string(), "Once upon a time", "0"});
  EXPECT_TRUE(stopped.out.ends_with("\n[abort]\n")) << stopped.out;
  const Outcome rules = run_command({folder / "example/build/custom_rules", model.string(),
                                     folder / "example/f32_cache.yaml", question});
  EXPECT_EQ(rules.out, "62 + 1 = 63\n") << rules.err;
  const Outcome missing = run_command({folder / "example/build/offline_batch", "/no/model", "x"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(std::ranges::count(missing.err, '\n'), 1) << missing.err;
}

TEST(Installation, BuildsAndRunsTheCustomOperatorExample) {
  const auto golden = golden_checkpoint("llama");
  const TempDir folder;
  build_example(folder, "custom_operator");
  ASSERT_FALSE(HasFatalFailure());
  const std::string graft = folder / "prefix/bin/graft";
  must_run({graft, "devices"});
  for (const char* page : {"man/man1/graft.1", "man/man1/graft-run.1", "zsh/site-functions/_graft",
                           "bash-completion/completions/graft"})
    EXPECT_TRUE(fs::exists(folder.path() / "prefix/share" / page)) << page;
  const std::string installed = folder / "prefix/share/graft/rules/cpu.yaml";
  const Outcome plan =
      run_command({graft, "plan", golden.string(), "--gpus", "0", "--rules", installed});
  expect_part(plan.out, installed);

  const std::string rules = folder / "example/scaled_norm.yaml";
  must_run({graft, "verify", golden.string(), "--device", "cpu", "--rules", rules, "--tolerance",
            "2e-5"});
  const std::string doubled = rules_with_factor(folder, "2");
  const Outcome outcome =
      run_command({graft, "verify", golden.string(), "--device", "cpu", "--rules", doubled});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
  expect_part(outcome.out, "FAILED");
  const std::string wrong = rules_with_factor(folder, "two");
  const Outcome text =
      run_command({graft, "verify", golden.string(), "--device", "cpu", "--rules", wrong});
  EXPECT_EQ(text.exit_code, 2) << text.out << text.err;
  expect_part(text.err, "factor is 'two', expected a number");

  // The same with --plugin and rules that name no plugin.
  std::ofstream(folder / "rules.yaml")
      << "- match: {role: norm}\n  replace: {class: example.scaled_norm}\n"
         "- match: {role: kv_cache}\n  replace: {class: default, kwargs: {dtype: f32}}\n";
  must_run({graft, "verify", "--plugin", folder / "example/build/scaled_norm.so", golden.string(),
            "--device", "cpu", "--rules", folder / "rules.yaml"});
  // Another operator for decode: the logits of the prompts match, the generated tokens do not.
  std::ofstream(folder / "phases.yaml")
      << "- match: {role: norm}\n  replace: {class: default, kwargs: {generate_op: "
         "example.scaled_norm, prefill_op: cpu.rms_norm, factor: 2}}\n"
         "- match: {role: kv_cache}\n  replace: {class: default, kwargs: {dtype: f32}}\n";
  const Outcome phases =
      run_command({graft, "verify", "--plugin", folder / "example/build/scaled_norm.so",
                   golden.string(), "--device", "cpu", "--rules", folder / "phases.yaml"});
  EXPECT_EQ(phases.exit_code, 1) << phases.out << phases.err;
  expect_part(phases.out, "DIFFERENT");
  EXPECT_EQ(phases.out.find("TOO LARGE"), std::string::npos) << phases.out;
  for (const RejectedPlugin& rejected : rejected_plugins(folder)) {
    std::ofstream(folder / "refused.yaml") << "plugins: [" << rejected.path << "]\nrules: []\n";
    const Outcome verify = run_command(
        {graft, "verify", golden.string(), "--device", "cpu", "--rules", folder / "refused.yaml"});
    EXPECT_EQ(verify.exit_code, 2) << verify.out;
    expect_part(verify.err, "refused.yaml:1: error: " + rejected.path + rejected.message);
    EXPECT_EQ(std::ranges::count(verify.err, '\n'), 1) << verify.err;
  }
}

}  // namespace
}  // namespace graft::tests
