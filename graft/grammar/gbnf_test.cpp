#include "graft/grammar/gbnf.h"

#include <string>

#include <gtest/gtest.h>

#include "graft/testing/grammar_texts.h"

namespace graft::grammar {
namespace {

using testing::compile_error;
using testing::matches;

Automaton gbnf(const std::string& text) {
  return compile({.kind = StructuredOutput::Kind::Grammar, .text = text});
}

std::string gbnf_error(const std::string& text) {
  return compile_error(StructuredOutput::Kind::Grammar, text);
}

TEST(Gbnf, MatchesArithmetic) {
  const Automaton automaton = gbnf(R"bnf(
# Sums and products.
root ::= (expr "=" ws term "\n")+
expr ::= term ([-+*/] term)*
term ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num ::= [0-9]+ ws   # digits
ws ::= [ \t\n]*
)bnf");
  EXPECT_TRUE(matches(automaton, "1+2=3\n"));
  EXPECT_TRUE(matches(automaton, "x +(y *( 2 -1 )) = 3\nb=c\n"));
  EXPECT_FALSE(matches(automaton, "1+=3\n"));
  EXPECT_FALSE(matches(automaton, "(1=3\n"));
  EXPECT_FALSE(matches(automaton, ""));
}

TEST(Gbnf, HasClassesRepetitionsAndEscapes) {
  const Automaton automaton = gbnf(
      "root ::= \"\\x41\\u00e9\\\"\\\\\" [^a-c\\]]{2,3} (\n  \"x\" |\n  y\n)? . z{2} v{1,}\n"
      "y ::= \"yy\"\nz ::= [\\U0001F600-\\U0001F602]\nv ::= \"v\"\n");
  EXPECT_TRUE(matches(automaton, "Aé\"\\dd.😀😁v"));
  EXPECT_TRUE(matches(automaton, "Aé\"\\dddyyé😀😂vvv"));
  EXPECT_FALSE(matches(automaton, "Aé\"\\ad.😀😁v"));
  EXPECT_FALSE(matches(automaton, "Aé\"\\dd.😀v"));
}

TEST(Gbnf, MatchesValuesOfSchemas) {
  const Automaton automaton = gbnf(
      R"bnf(root ::= ("<call>\n" %json {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false} "\n</call>" "\n"?)+)bnf");
  EXPECT_TRUE(matches(automaton, "<call>\n{\"n\": 12}\n</call>"));
  EXPECT_TRUE(matches(automaton, "<call>\n{\"n\":1}\n</call>\n<call>\n{\"n\":2}\n</call>"));
  EXPECT_FALSE(matches(automaton, "<call>\n{\"m\": 12}\n</call>"));
  EXPECT_FALSE(matches(automaton, "<call>\n{\"n\": 12}</call>"));
}

TEST(Gbnf, NamesSpecialTokens) {
  const SpecialToken tokens[] = {
      {.name = "<call>"}, {.name = "<call>>"}, {.name = "<end>", .is_end = true}};
  const StructuredOutput output = {.kind = StructuredOutput::Kind::Grammar,
                                   .text = "root ::= %special \"a<call>b<end>\" \"<call>\"\n"};
  EXPECT_TRUE(matches(compile(output), "a<call>b<end><call>"));
  const Automaton automaton = compile(output, tokens);
  EXPECT_TRUE(matches(automaton,
                      "a\xFF<call>\xFF"
                      "b<call>"));
  EXPECT_FALSE(matches(automaton, "a<call>b<call>"));
  EXPECT_FALSE(matches(automaton,
                       "a\xFF<call>\xFF"
                       "b\xFF<call>\xFF"));
}

TEST(Gbnf, MatchesTextsWithoutAPattern) {
  const Automaton automaton = gbnf("root ::= %without \"</a>|^ \" \"</a>\"\n");
  EXPECT_TRUE(matches(automaton, "</a>"));
  EXPECT_TRUE(matches(automaton, "x < y</a</a>"));
  EXPECT_FALSE(matches(automaton, "x</a>y</a>"));
  EXPECT_FALSE(matches(automaton, " x</a>"));
  EXPECT_EQ(gbnf_error("root ::= %without \"(\"\n").find("grammar: line 1: %without: "), 0U);
  EXPECT_EQ(gbnf_error("root ::= %without x\n"),
            "grammar: line 1: expected a text in quotes after %without");
  EXPECT_EQ(gbnf_error("root ::= %some \"x\"\n").find("grammar: line 1: unknown extension %some"),
            0U);
}

TEST(Gbnf, MatchesParametersOfCalls) {
  const Automaton automaton = gbnf(
      R"bnf(root ::= %arguments {"tool": "f", "schema": {"properties": {"s": {"type": "string"}, "n": {"type": "number"}}, "required": ["n"]}, "parameters": {"kind": "untyped", "before_key": "<", "before_text": ">", "before_json": ">", "after_value": "</>", "excluded": ["</>"]}})bnf");
  EXPECT_TRUE(matches(automaton, "<n>1.5</>"));
  EXPECT_TRUE(matches(automaton, "<s>a <b></><n>1</>"));
  EXPECT_FALSE(matches(automaton, "<n>1</><s>a</>"));
  EXPECT_FALSE(matches(automaton, "<s>a</>"));
  EXPECT_FALSE(matches(automaton, "<s>a</><n>b</>"));
  EXPECT_FALSE(matches(automaton, "<s>\na</><n>1</>"));
}

// A rule that ends with itself does not grow the stack.
TEST(Gbnf, MatchesLongRightRecursion) {
  const Automaton automaton = gbnf("root ::= \"a\" root | \"b\"\n");
  EXPECT_TRUE(matches(automaton, std::string(100'000, 'a') + "b"));
}

TEST(Gbnf, MatchesNestedTextsUpToTheDepth) {
  const Automaton automaton = gbnf("root ::= \"(\" root \")\" | \"\"\n");
  EXPECT_TRUE(matches(automaton, std::string(100, '(') + std::string(100, ')')));
  EXPECT_FALSE(matches(automaton, std::string(100, '(') + std::string(99, ')')));
  EXPECT_FALSE(matches(automaton, std::string(2000, '(') + std::string(2000, ')')));
}

TEST(Gbnf, RefusesWithTheLine) {
  EXPECT_EQ(gbnf_error("root ::= a\n"), "grammar: rule a is not defined");
  EXPECT_EQ(gbnf_error("a ::= \"x\"\n"), "grammar: no rule is named root");
  EXPECT_EQ(gbnf_error("root ::= \"x\"\nroot ::= \"y\"\n"),
            "grammar: line 2: rule root is defined twice");
  EXPECT_EQ(gbnf_error("root ::= root \"x\" | \"y\"\n"), "grammar: left recursion in rule root");
  EXPECT_EQ(gbnf_error("root ::= a? root \"x\" | \"y\"\na ::= \"a\"\n"),
            "grammar: left recursion in rule root");
  EXPECT_EQ(gbnf_error("root ::= \"x\" root\n"), "grammar: no text matches");
  EXPECT_EQ(gbnf_error("root ::= (\"x\"\n"), "grammar: line 2: expected )");
  EXPECT_EQ(gbnf_error("root ::= \"\\q\"\n"), "grammar: line 1: unknown escape \\q");
  EXPECT_EQ(gbnf_error("root ::= [b-a]\n"), "grammar: line 1: a range ends before it begins");
  EXPECT_EQ(gbnf_error("root := \"a\"\n"), "grammar: line 1: expected ::= after root");
}

}  // namespace
}  // namespace graft::grammar
