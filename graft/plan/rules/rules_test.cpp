#include "graft/plan/rules/rules.h"

#include <chrono>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::plan {
namespace {

struct Parsed {
  RuleFile file;
  std::vector<Finding> findings;
};

Parsed parse(const std::string& text) {
  Parsed parsed;
  parsed.file = parse_rules(text, "r.yaml", parsed.findings);
  return parsed;
}

std::string findings_of(const std::string& text) {
  return findings_text(parse(text).findings);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Rules, ReadsEveryKey) {
  const Parsed parsed = parse(R"(# comment
- match:
    name: "^model\\.layers\\."
    class: torch.nn.Linear
    layers: [0-2, "7", 9]
    role: linear
  replace:
    class: ktransformers.operators.linear.KTransformersLinear
    kwargs:
      generate_device: "cuda:0"
      prefill_op: None
      generate_op:
      absorb_for_prefill: False
      transfer_map:
        10: "cuda:1"
        20: cpu
  recursive: False
)");
  EXPECT_EQ(findings_text(parsed.findings), "");
  ASSERT_EQ(parsed.file.rules.size(), 1U);
  const Rule& rule = parsed.file.rules[0];
  EXPECT_EQ(rule.line, 2);
  EXPECT_EQ(rule.name_regex, "^model\\.layers\\.");
  EXPECT_EQ(rule.class_name, "Linear");
  EXPECT_EQ(rule.layers, (std::vector<LayerRange>{{0, 2}, {7, 7}, {9, 9}}));
  EXPECT_EQ(rule.role, ops::Role::Linear);
  EXPECT_EQ(rule.replace_class, "ktransformers.operators.linear.KTransformersLinear");
  EXPECT_EQ(rule.class_line, 8);
  EXPECT_EQ(rule.kwargs.at("generate_device"), "cuda:0");
  EXPECT_EQ(rule.kwargs.at("prefill_op"), "None");
  EXPECT_EQ(rule.kwargs.at("generate_op"), "None");
  EXPECT_EQ(rule.kwargs.at("absorb_for_prefill"), "false");
  EXPECT_EQ(rule.line_of("absorb_for_prefill"), 13);
  EXPECT_EQ(rule.line_of("nothing"), 2);
  EXPECT_EQ(rule.transfer_map, (std::map<std::int64_t, std::string>{{10, "cuda:1"}, {20, "cpu"}}));
  EXPECT_FALSE(rule.recursive);
}

TEST(Rules, DefaultsMatchKTransformers) {
  const Rule rule = parse("- match: {class: Linear}\n  replace: {}\n").file.rules.at(0);
  EXPECT_EQ(rule.replace_class, "default");
  EXPECT_TRUE(rule.recursive);
  EXPECT_TRUE(rule.kwargs.empty());
}

TEST(Rules, AcceptsAMapWithPlugins) {
  const Parsed parsed = parse(
      "plugins: [libmine.so,\n  ./other.so]\nrules:\n- {match: {role: norm}, replace: {class: "
      "norm}}\n");
  EXPECT_TRUE(parsed.findings.empty());
  ASSERT_EQ(parsed.file.plugins.size(), 2U);
  EXPECT_EQ(parsed.file.plugins[0].path, "libmine.so");
  EXPECT_EQ(parsed.file.plugins[0].line, 1);
  EXPECT_EQ(parsed.file.plugins[1].path, "./other.so");
  EXPECT_EQ(parsed.file.plugins[1].line, 2);
  EXPECT_EQ(parsed.file.rules.at(0).line, 4);
  EXPECT_EQ(findings_of("plugins: x\nrules: []\n"),
            "r.yaml:1: error: plugins must be a list of paths\n");
  EXPECT_EQ(findings_of("rules: []\nplugin: [a]\n"),
            "r.yaml:2: error: unknown key \"plugin\" in the file (known: plugins, rules)\n");
}

TEST(Rules, ReadsYaml11Booleans) {
  for (const char* word : {"False", "false", "FALSE", "no", "off"}) {
    const auto rule = parse(str("- {match: {role: mlp}, replace: {}, recursive: ", word, "}"));
    EXPECT_TRUE(rule.findings.empty()) << word;
    EXPECT_FALSE(rule.file.rules.at(0).recursive) << word;
  }
  for (const char* word : {"\"False\"", "0", "n", "[]"}) {
    EXPECT_EQ(findings_of(str("- match: {role: mlp}\n  replace: {}\n  recursive: ", word)),
              "r.yaml:3: error: recursive must be true or false, without quotes\n")
        << word;
  }
}

struct InvalidText {
  const char* text;
  const char* findings;

  friend std::ostream& operator<<(std::ostream& out, const InvalidText& invalid) {
    return out << invalid.text;
  }
};

class InvalidRules : public ::testing::TestWithParam<InvalidText> {};

TEST_P(InvalidRules, AreReportedWithTheirLine) {
  EXPECT_EQ(findings_of(GetParam().text), GetParam().findings);
}

INSTANTIATE_TEST_SUITE_P(
    Grammar,
    InvalidRules,
    ::testing::Values(
        InvalidText{
            "- match: {role: mlp}\n  replace: {}\n  note: x\n",
            "r.yaml:3: error: unknown key \"note\" in a rule (known: match, replace, recursive)\n"},
        InvalidText{
            "- match: {role: mlp, names: x}\n  replace: {}\n",
            "r.yaml:1: error: unknown key \"names\" in match (known: name, class, layers, role)\n"},
        InvalidText{"- match: {role: mlp}\n  replace:\n    device: cpu\n",
                    "r.yaml:3: error: unknown key \"device\" in replace (known: class, kwargs)\n"},
        InvalidText{"- match: {role: mlp}\n", "r.yaml:1: error: the rule has no replace\n"},
        InvalidText{"- replace: {class: default}\n", "r.yaml:1: error: the rule has no match\n"},
        InvalidText{"- match: {}\n  replace: {}\n",
                    "r.yaml:1: error: match is empty: set name, class, layers or role\n"},
        InvalidText{"- match: model\n  replace: {}\n", "r.yaml:1: error: match must be a map\n"},
        InvalidText{"- match: {role: mlp}\n  replace: default\n",
                    "r.yaml:2: error: replace must be a map\n"},
        InvalidText{"- just text\n", "r.yaml:1: error: a rule is a map with match and replace\n"},
        InvalidText{"- match:\n    name: [a]\n  replace: {}\n",
                    "r.yaml:2: error: match.name must be text, not a list\n"},
        InvalidText{
            "- match:\n    name: \"(a\"\n  replace: {}\n",
            "r.yaml:2: error: match.name is not a regular expression: at 2: missing closing "
            "parenthesis\n"},
        InvalidText{"- match:\n    class: a.b.\n  replace: {}\n",
                    "r.yaml:2: error: match.class has no class name: \"a.b.\"\n"},
        InvalidText{
            "- match:\n    role: expert\n  replace: {}\n",
            "r.yaml:2: error: unknown role \"expert\" (known: model, layer, embedding, norm, "
            "linear, rope, attention, indexer, compressor, hyper_connection, kv_cache, "
            "state_cache, mlp, moe, router, "
            "experts, vision_tower, multi_modal_projector)\n"},
        InvalidText{"- match: {role: mlp}\n  replace: {kwargs: [1]}\n",
                    "r.yaml:2: error: kwargs must be a map\n"},
        InvalidText{"- match: {role: mlp}\n  replace:\n    kwargs:\n      device: [cpu]\n",
                    "r.yaml:4: error: device must be text, not a list\n"},
        InvalidText{"- match: {role: mlp}\n  replace:\n    kwargs:\n      device:\n",
                    "r.yaml:4: error: device must be text, not empty\n"},
        InvalidText{
            "- match: {role: mlp}\n  replace:\n    kwargs:\n      device: a\n      device: b\n",
            "r.yaml:5: error: duplicate key \"device\"\n"},
        InvalidText{"- match: {role: mlp}\n  replace:\n    kwargs:\n      transfer_map: cuda:1\n",
                    "r.yaml:4: error: transfer_map must be a map of layer: device\n"},
        InvalidText{"- match: {role: mlp}\n  replace:\n    kwargs:\n      transfer_map: {a: cpu}\n",
                    "r.yaml:4: error: transfer_map: the key must be a layer number\n"},
        InvalidText{
            "- match: {role: mlp}\n  replace:\n    kwargs:\n      transfer_map: {3: [cpu]}\n",
            "r.yaml:4: error: transfer_map: the device must be text, not a list\n"}));

TEST(Rules, BadLayersAreReported) {
  for (const char* layers :
       {"9-3", "a", "-1", "1-", "1-2-3", "99999999999999999999", "\"\"", "{}"}) {
    const std::string text = str("- match:\n    layers: ", layers, "\n  replace: {}\n");
    const Parsed parsed = parse(text);
    ASSERT_EQ(parsed.findings.size(), 1U) << layers;
    EXPECT_EQ(parsed.findings[0].where, "r.yaml:2");
    EXPECT_TRUE(parsed.file.rules.at(0).broken);
  }
  EXPECT_EQ(findings_of("- match: {layers: []}\n  replace: {}\n"),
            "r.yaml:1: error: match.layers is an empty list\n");
}

TEST(Rules, ReportsAllErrorsSortedByLine) {
  EXPECT_EQ(findings_of("- match: {role: x}\n"
                        "- match: {name: \"(\"}\n"
                        "  replace: {}\n"
                        "  other: 1\n"),
            "r.yaml:1: error: unknown role \"x\" (known: model, layer, embedding, norm, linear, "
            "rope, attention, indexer, compressor, hyper_connection, kv_cache, state_cache, mlp, "
            "moe, router, experts, vision_tower, multi_modal_projector)\n"
            "r.yaml:1: error: the rule has no replace\n"
            "r.yaml:2: error: match.name is not a regular expression: at 1: missing closing "
            "parenthesis\n"
            "r.yaml:4: error: unknown key \"other\" in a rule (known: match, replace, "
            "recursive)\n");
}

TEST(Rules, InvalidFilesThrow) {
  EXPECT_EQ(error_of([] { parse("- match: {role: mlp\n  replace: {}\n"); }).substr(0, 9),
            "r.yaml:2:");
  EXPECT_EQ(error_of([] { parse(""); }), "r.yaml:1: the file has no rules");
  EXPECT_EQ(error_of([] { parse("# only a comment\n"); }), "r.yaml:1: the file has no rules");
  EXPECT_EQ(error_of([] { parse("text"); }), "r.yaml:1: a rule file is a list of rules");
  EXPECT_EQ(error_of([] { parse("rules: 3"); }), "r.yaml:1: rules must be a list of rules");
  EXPECT_EQ(error_of([] { parse("match: {role: mlp}"); }),
            "r.yaml:1: expected a list of rules or a key \"rules\"");
  EXPECT_EQ(error_of([] { parse("[]\n---\n[]\n"); }),
            "r.yaml:2: unexpected content after the list of rules");
  EXPECT_EQ(error_of([] { parse("- {match: {role: mlp}, replace: {}}\n, x\n"); }),
            "r.yaml:2: unexpected content after the list of rules");
  EXPECT_NE(error_of([] { parse(std::string((4U << 20U) + 1, ' ')); }), "no error");
}

// Without limits, each of these takes exponential time or a deep stack.
TEST(Rules, HostileFilesFailFast) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(error_of([] { parse(std::string(1'000'000, '[')); }), "no error");
  EXPECT_NE(error_of([] { parse(std::string(100'000, '{')); }), "no error");
  std::string bomb = "- &a0 [x, x]\n";
  for (int i = 1; i < 60; ++i) {
    bomb += str("- &a", i, " [*a", i - 1, ", *a", i - 1, "]\n");
  }
  EXPECT_FALSE(parse(bomb).findings.empty());
  // A list of 50,000 layers, repeated by 1,000 rules through an alias.
  std::string many = "- &r {match: {layers: [0";
  for (int i = 1; i < 50'000; ++i)
    many += str(",", i);
  many += "]}, replace: {}}\n";
  for (int i = 0; i < 1'000; ++i)
    many += "- *r\n";
  EXPECT_NE(error_of([&] { parse(many); }), "no error");
  EXPECT_NE(error_of([] { parse("&a [*a, *a]"); }) + findings_of("- &a {match: *a}\n"), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Rules, UnreadableFilesThrow) {
  std::vector<Finding> findings;
  EXPECT_THROW(read_rules("/nonexistent/rules.yaml", findings), Error);
  EXPECT_THROW(read_rules("/", findings), Error);
}

}  // namespace
}  // namespace graft::plan
