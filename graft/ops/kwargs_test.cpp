#include "graft/ops/kwargs.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/devices/cuda_operators.h"
#include "graft/ops/registry.h"

namespace graft::ops {
namespace {

const Params kNone = NoParams{};

TEST(Kwargs, ValuesAreCheckedByKind) {
  const Kwarg text = {.key = "k"};
  const Kwarg ratio = {.key = "k", .kind = Kwarg::Kind::Number, .min = 0, .max = 1};
  const Kwarg count = {.key = "k", .kind = Kwarg::Kind::Integer, .min = 2};
  EXPECT_EQ(value_problem(text, "anything", kNone), "");
  EXPECT_EQ(value_problem(ratio, "0.5", kNone), "");
  EXPECT_EQ(value_problem(ratio, "1.5", kNone), "k is '1.5', expected a number from 0 to 1");
  EXPECT_EQ(value_problem(ratio, "nan", kNone), "k is 'nan', expected a number from 0 to 1");
  EXPECT_EQ(value_problem(count, "2", kNone), "");
  EXPECT_EQ(value_problem(count, "1", kNone), "k is '1', expected an integer of at least 2");
  EXPECT_EQ(value_problem(count, "2.0", kNone), "k is '2.0', expected an integer of at least 2");
  EXPECT_EQ(value_problem(repack_kwarg(), "False", kNone), "");
  EXPECT_EQ(value_problem(repack_kwarg(), "maybe", kNone),
            "repack is 'maybe', expected true or false");
  EXPECT_EQ(value_problem(cache_type_kwarg(), "Q8_0", kNone), "");
  EXPECT_EQ(value_problem(cache_type_kwarg(), "q5_1", kNone),
            "dtype is 'q5_1', expected f32, f16, bf16, fp8, q8_0 or q4_0");
  EXPECT_EQ(value_problem(block_tokens_kwarg(), "-3", kNone),
            "block_tokens is '-3', expected an integer from 1 to 65536");
}

TEST(Kwargs, CountsAreIntegersPercentagesOrAuto) {
  const Kwarg& kwarg = gpu_experts_kwarg();
  EXPECT_EQ(parse_count(kwarg, "16", 128), 16);
  EXPECT_EQ(parse_count(kwarg, "12%", 128), 15);
  EXPECT_EQ(parse_count(kwarg, "0.1%", 128), 1);
  EXPECT_EQ(parse_count(kwarg, "0%", 128), 0);
  EXPECT_EQ(parse_count(kwarg, "100%", 128), 128);
  EXPECT_EQ(parse_count(kwarg, "auto", 128), std::nullopt);
  const Params experts = ExpertsParams{.num_experts = 128};
  for (const char* value : {"0", "128", "100%", "Auto"})
    EXPECT_EQ(value_problem(kwarg, value, experts), "") << value;
  EXPECT_EQ(value_problem(kwarg, "129", experts), "gpu_experts is 129, the module has 128 experts");
  for (const char* value : {"-1", "1.5", "101%", "-1%", "nan%", "%", "12 %", "all", ""}) {
    EXPECT_EQ(value_problem(kwarg, value, experts),
              str("gpu_experts is '", value,
                  "', expected an integer from 0 to 65536, a percentage or auto"));
  }
}

TEST(Kwargs, ValuesMaySuitOnlySomeModules) {
  const Params cache = KvCacheParams{.key_size = 80, .value_size = 80};
  EXPECT_EQ(value_problem(cache_type_kwarg(), "bf16", cache), "");
  EXPECT_EQ(value_problem(cache_type_kwarg(), "q8_0", cache),
            "dtype q8_0 has blocks of 32 values, and the head size 80 is not a multiple");
}

TEST(Kwargs, OperatorsReadWhatTheirDeclarationsAccept) {
  const Kwargs kwargs = {{"precision", "F32"}, {"block_tokens", "0"}, {"repack", "False"}};
  BuildContext context;
  EXPECT_EQ(context.word_kwarg(precision_kwarg()), "fast");
  EXPECT_EQ(context.int_kwarg(block_tokens_kwarg()), 16);
  context.kwargs = &kwargs;
  EXPECT_EQ(context.word_kwarg(precision_kwarg()), "f32");
  EXPECT_FALSE(context.bool_kwarg(repack_kwarg()));
  EXPECT_THROW(context.int_kwarg(block_tokens_kwarg()), Error);
}

// docs/rules.md has one row per operator and kwarg.
TEST(Kwargs, AreDocumented) {
  std::vector<std::string> rows;
  std::ifstream page(std::filesystem::path(GRAFT_SOURCE_DIR) / "docs/rules.md");
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `cpu.") || line.starts_with("| `cuda.")) rows.push_back(line);
  }
  const Registry registry = builtin_operators();
  std::vector<const OperatorInfo*> operators = registry.all();
  for (const OperatorInfo& info : cuda_operators())
    operators.push_back(&info);
  std::size_t row = 0;
  for (const OperatorInfo* op : operators) {
    for (const Kwarg& kwarg : op->kwargs) {
      std::string expected = str("| `", op->name, "` | `", kwarg.key, "` | ", values_text(kwarg));
      if (!kwarg.fallback.empty()) expected += str(" | `", kwarg.fallback, "`");
      ASSERT_LT(row, rows.size()) << expected;
      EXPECT_TRUE(rows[row].starts_with(expected)) << expected << "\n" << rows[row];
      ++row;
    }
  }
  EXPECT_EQ(row, rows.size());
}

}  // namespace
}  // namespace graft::ops
