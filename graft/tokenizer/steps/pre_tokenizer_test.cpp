#include "graft/tokenizer/steps/pre_tokenizer.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/tokenizer.h"
#include "graft/tokenizer/steps/pattern.h"

namespace graft::tokenizer {
namespace {

class Joined final : public PieceSink {
 public:
  void piece(std::string_view text) override { out += str(out.empty() ? "" : "|", text); }
  bool emit_cached(std::string_view /*text*/, std::size_t /*num_steps*/) override { return false; }
  std::size_t mark() const override { return 0; }
  void cache(std::string_view /*text*/, std::size_t /*steps*/, std::size_t /*mark*/) override {}

  std::string out;
};

std::string split_text(const std::vector<PreTokenizerStep>& steps, std::string_view text) {
  Joined sink;
  RegexScratch scratch;
  PreTokenizer(steps).run(text, true, scratch, sink);
  return sink.out;
}

std::string split(std::string_view pattern,
                  std::string_view text,
                  SplitBehavior behavior = SplitBehavior::Isolated,
                  bool invert = false) {
  return split_text(
      {{.pattern = translated_pattern(pattern), .behavior = behavior, .invert = invert}}, text);
}

// The expectations of Hugging Face's own tests.
TEST(PreTokenizer, SplitsByBehavior) {
  const std::string text = "the-final--countdown";
  EXPECT_EQ(split("-", text, SplitBehavior::Removed), "the|final|countdown");
  EXPECT_EQ(split("-", text, SplitBehavior::Isolated), "the|-|final|-|-|countdown");
  EXPECT_EQ(split("-", text, SplitBehavior::MergedWithPrevious), "the-|final-|-|countdown");
  EXPECT_EQ(split("-", text, SplitBehavior::MergedWithNext), "the|-final|-|-countdown");
  EXPECT_EQ(split("-", text, SplitBehavior::Contiguous), "the|-|final|--|countdown");
  EXPECT_EQ(split("[a-z]+", text, SplitBehavior::Removed, true), "the|final|countdown");
  EXPECT_EQ(split("-", "", SplitBehavior::Isolated), "");
}

TEST(PreTokenizer, InvalidUtf8BytesAreSeparatePieces) {
  EXPECT_EQ(split(R"(\p{L}+|\s+)",
                  "ab\xFF\xFE"
                  "cd \xC3"),
            "ab|\xFF|\xFE|cd| |\xC3");
  EXPECT_EQ(split(".+",
                  "a\x80"
                  "b"),
            "a|\x80|b");
}

TEST(PreTokenizer, AddsPrefixSpacesAndMetaspaces) {
  using Kind = PreTokenizerStep::Kind;
  using Prepend = PreTokenizerStep::Prepend;
  EXPECT_EQ(split_text({{.kind = Kind::PrefixSpace}}, "a"), " a");
  EXPECT_EQ(split_text({{.kind = Kind::PrefixSpace}}, " a"), " a");
  const auto metaspace = [](Prepend prepend) {
    return PreTokenizerStep{.kind = Kind::Metaspace, .pattern = "▁", .prepend = prepend};
  };
  const PreTokenizerStep words = {.pattern = "▁", .behavior = SplitBehavior::MergedWithNext};
  const PreTokenizerStep lines = {.pattern = "\\n", .behavior = SplitBehavior::Isolated};
  EXPECT_EQ(split_text({metaspace(Prepend::Always), words}, "a  b"), "▁a|▁|▁b");
  EXPECT_EQ(split_text({metaspace(Prepend::Never), words}, "a b"), "a|▁b");
  EXPECT_EQ(split_text({lines, metaspace(Prepend::Always)}, "a\nb"), "▁a|▁\n|▁b");
  EXPECT_EQ(split_text({lines, metaspace(Prepend::First)}, "a\nb"), "▁a|\n|b");
}

TEST(Pattern, TranslatesOniguruma) {
  EXPECT_EQ(split(R"(\h+)", "xyz12afg"), "xyz|12af|g");
  EXPECT_EQ(split(R"([a-z&&[^aeiou]]+)", "hello"), "h|e|ll|o");
  EXPECT_EQ(split(R"([\p{L}&&[^\p{Han}]]+)", "ab中c"), "ab|中|c");
  EXPECT_EQ(split(R"([[a-c][x-z]]+)", "abcdxyz"), "abc|d|xyz");
  EXPECT_EQ(split(R"(^a|b$)", "a\nab\nb"), "a|\n|a|b|\n|b");
  EXPECT_EQ(split(R"(a{,2}b)", "aaab"), "a|aab");
  EXPECT_EQ(split(R"(\d{1,2}+x)", "12345x"), "12345x");
  EXPECT_EQ(split(R"(\u4e2d|\x{6587})", "x中文y"), "x|中|文|y");
  EXPECT_EQ(split(R"(\p{Letter}+)", "a1b"), "a|1|b");
  EXPECT_EQ(split(R"(\s)", "a\u180Eb\u0085c"), "a\u180Eb|\u0085|c");
  EXPECT_EQ(split(R"(\bfoo\b)", "foo foobar"), "foo| foobar");
  EXPECT_EQ(split(R"((?m:a.b))", "a\nb"), "a\nb");
  EXPECT_EQ(split(R"(\s+$)", "a  \n b  "), "a|  |\n b|  ");
  EXPECT_EQ(split_text({{.pattern = quoted_pattern("a.+(b")}}, "xa.+(by"), "x|a.+(b|y");
}

TEST(Pattern, RejectsUntranslatableSyntax) {
  const auto error = [](std::string_view pattern) {
    return test::error_of([&] { split(pattern, "x"); });
  };
  EXPECT_NE(error(R"([\W])").find("\\W inside a class is not supported"), std::string::npos);
  EXPECT_NE(error(R"(a\G)").find("\\G is not supported"), std::string::npos);
  EXPECT_NE(error("[a").find("without ]"), std::string::npos);
  EXPECT_NE(error("(a").find("parenthesis"), std::string::npos);
  EXPECT_NE(error(R"(\p{Nonsense})").find("property"), std::string::npos);
}

}  // namespace
}  // namespace graft::tokenizer
