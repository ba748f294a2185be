#include "graft/engine/sampling/line_limits.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace graft::engine {
namespace {

// The output of the pieces, `ms` between two of them; with "|" where it ended before the last.
std::string output(const SamplingParams& params,
                   const std::vector<std::string>& pieces,
                   std::int64_t ms = 0) {
  LineLimits limits(params);
  std::string all;
  std::int64_t now = 0;
  for (std::string piece : pieces) {
    const bool is_end = limits.cut(piece, now);
    all += piece;
    if (is_end) return all + "|";
    now += ms;
  }
  return all;
}

TEST(LineLimits, EndsAtALineThatIsIndentedTooLittle) {
  SamplingParams params;
  params.min_indent = 2;
  EXPECT_EQ(output(params, {"a\n  b\n", " ", "\tc\n", "    d"}), "a\n  b\n \tc\n    d");
  EXPECT_EQ(output(params, {"a\n  b", "\n ", "c"}), "a\n  b\n |");
  EXPECT_EQ(output(params, {"a\n\n  b"}), "a\n|");  // an empty line, too
  EXPECT_EQ(output(params, {"a b"}), "a b");
}

TEST(LineLimits, EndsWithTheLineAfterTheTime) {
  SamplingParams params;
  params.max_line_ms = 25;
  EXPECT_EQ(output(params, {"a\n", "b", "c", "d", "e\nf"}, 10), "a\nbcde\n|");
  EXPECT_EQ(output(params, {"a", "b", "c", "d", "e"}, 10), "abcde");  // never within a line
  params.max_line_ms = 40;
  EXPECT_EQ(output(params, {"a\n", "b\n", "c\n", "d\n", "e\n"}, 10), "a\nb\nc\nd\ne\n");
}

}  // namespace
}  // namespace graft::engine
