#include "graft/convert/recipe.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::convert {
namespace {

using formats::TensorInfo;
using formats::TensorTransform;

// Owns F32 tensors whose values count up from `first`.
class Tensors {
 public:
  const TensorInfo& add(std::vector<std::int64_t> shape, float first) {
    std::int64_t elems = 1;
    for (const std::int64_t dim : shape)
      elems *= dim;
    auto& values = values_.emplace_back(static_cast<std::size_t>(elems));
    std::iota(values.begin(), values.end(), first);
    return infos_.emplace_back(TensorInfo{.name = "t",
                                          .dtype = DType::F32,
                                          .shape = std::move(shape),
                                          .data = std::as_bytes(std::span(values))});
  }

 private:
  std::deque<std::vector<float>> values_;
  std::deque<TensorInfo> infos_;
};

// All rows, read in chunks of `step`.
std::vector<float> rows_of(const Recipe& recipe, std::int64_t step) {
  const RowReader reader(recipe, {});
  std::vector<float> all;
  for (std::int64_t row = 0; row < recipe.num_rows(); row += step) {
    const std::int64_t count = std::min(step, recipe.num_rows() - row);
    std::vector<float> chunk(static_cast<std::size_t>(count * recipe.row_elems()));
    reader.read(row, count, chunk.data());
    all.insert(all.end(), chunk.begin(), chunk.end());
  }
  return all;
}

void expect_rows(const Recipe& recipe, const std::vector<float>& want) {
  for (const std::int64_t step : {1, 3, 100})
    EXPECT_EQ(rows_of(recipe, step), want) << "in chunks of " << step;
}

TEST(RowReader, RopePairsInterleaveTheHalvesOfEachHead) {
  Tensors tensors;
  // Two heads of four rows of one value: 0 1 | 2 3 and 4 5 | 6 7.
  const Recipe weight = {.name = "w",
                         .shape = {8, 1},
                         .transform = TensorTransform::RopePairs,
                         .num_heads = 2,
                         .sources = {{.weight = &tensors.add({8, 1}, 0), .scale = nullptr}},
                         .values = {}};
  expect_rows(weight, {0, 2, 1, 3, 4, 6, 5, 7});
  Recipe bias = weight;
  bias.shape = {8};
  bias.sources = {{.weight = &tensors.add({8}, 0), .scale = nullptr}};
  expect_rows(bias, {0, 2, 1, 3, 4, 6, 5, 7});
}

TEST(RowReader, ConcatenatesExperts) {
  Tensors tensors;
  const Recipe recipe = {.name = "w",
                         .shape = {2, 2, 2},
                         .transform = TensorTransform::Expert,
                         .sources = {{.weight = &tensors.add({2, 2}, 10), .scale = nullptr},
                                     {.weight = &tensors.add({2, 2}, 20), .scale = nullptr}},
                         .values = {}};
  expect_rows(recipe, {10, 11, 12, 13, 20, 21, 22, 23});
}

TEST(RowReader, SplitsFusedExpertsIntoGateAndUp) {
  Tensors tensors;
  // Two experts of two gate and two up rows of one value.
  Recipe recipe = {.name = "w",
                   .shape = {2, 2, 1},
                   .transform = TensorTransform::FirstHalf,
                   .sources = {{.weight = &tensors.add({2, 4, 1}, 0), .scale = nullptr}},
                   .values = {}};
  expect_rows(recipe, {0, 1, 4, 5});
  recipe.transform = TensorTransform::SecondHalf;
  expect_rows(recipe, {2, 3, 6, 7});
}

TEST(RowReader, SplitsKvBIntoTransposedKeysAndValues) {
  Tensors tensors;
  // Two heads with two key rows and one value row each; kv_lora_rank 2.
  const TensorInfo& kv_b = tensors.add({6, 2}, 0);
  Recipe keys = {.name = "k_b",
                 .shape = {2, 2, 2},
                 .transform = TensorTransform::KvBKey,
                 .kv_b = {.heads = 2, .key_dim = 2, .value_dim = 1, .rank = 2},
                 .sources = {{.weight = &kv_b, .scale = nullptr}},
                 .values = {}};
  expect_rows(keys, {0, 2, 1, 3, 6, 8, 7, 9});
  Recipe values = keys;
  values.shape = {2, 1, 2};
  values.transform = TensorTransform::KvBValue;
  expect_rows(values, {4, 5, 10, 11});
}

TEST(RowReader, AppliesScales) {
  Tensors tensors;
  Recipe recipe = {
      .name = "w",
      .shape = {2, 2},
      .transform = TensorTransform::Same,
      .sources = {{.weight = &tensors.add({2, 2}, 1), .scale = &tensors.add({2, 1}, 2)}},
      .values = {}};
  EXPECT_FALSE(recipe.is_copy());
  expect_rows(recipe, {2, 4, 9, 12});
  recipe.sources[0].scale = &tensors.add({3}, 0);
  EXPECT_THROW(RowReader(recipe, {}), Error);
}

TEST(RowReader, ReadsComputedValues) {
  const Recipe recipe = {.name = "rope_freqs.weight",
                         .shape = {3},
                         .transform = TensorTransform::Same,
                         .sources = {},
                         .values = {1, 2, 4}};
  expect_rows(recipe, {1, 2, 4});
}

}  // namespace
}  // namespace graft::convert
