#include "graft/kernels/cuda/sample_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "graft/testing/cuda/device.cuh"
#include "graft/testing/sample_row.h"

namespace graft::kernels::cuda {
namespace {

using ops::testing::sample_row;
using ops::testing::sampling_distribution;
using testing::DeviceArray;
using testing::Floats;
using testing::Random;

class SampleTokens : public testing::GpuTest {};

struct SamplingCase {
  Floats logits = {};  // [rows, stride]
  std::int64_t stride = 0;
  std::int64_t vocab = 0;
  std::vector<RowSampling> rows = {};
  std::vector<LogitEdit> edits = {};
  std::vector<std::uint32_t> masks = {};

  std::span<const float> row(std::size_t i) const {
    return std::span(logits).subspan(i * static_cast<std::size_t>(stride),
                                     static_cast<std::size_t>(vocab));
  }
};

std::vector<std::int32_t> run(const SamplingCase& batch) {
  const auto num_rows = static_cast<std::int64_t>(batch.rows.size());
  const DeviceArray<float> logits(batch.logits);
  const DeviceArray<RowSampling> rows(batch.rows);
  const DeviceArray<LogitEdit> edits(batch.edits);
  const DeviceArray<std::uint32_t> masks(batch.masks);
  const DeviceArray<std::int32_t> tokens(batch.rows.size());
  const DeviceArray<std::uint8_t> scratch(sample_tokens_bytes(num_rows, batch.vocab));
  sample_tokens(
      {logits.get(), batch.stride}, num_rows, batch.vocab,
      {.rows = rows.get(), .edits = edits.get(), .masks = masks.get(), .tokens = tokens.get()},
      scratch.get(), nullptr);
  return tokens.download();
}

RowSampling random_row(std::mt19937& random) {
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  RowSampling row;
  if (!one_in(5)) row.temperature = 0.1F + 0.01F * static_cast<float>(random() % 200);
  if (one_in(2)) row.top_k = 1 + static_cast<std::int32_t>(random() % 100);
  if (one_in(2)) row.top_p = 0.0503 + 0.01 * static_cast<double>(random() % 95);
  if (one_in(4)) row.min_p = 0.001F * static_cast<float>(random() % 300);
  row.draw = static_cast<double>(random()) / 4294967296.0;
  return row;
}

// Vocabularies that fit into the shared memory of a cluster, and one that does not.
TEST_F(SampleTokens, MatchTheReference) {
  std::mt19937 random(3);
  for (const std::int64_t vocab : {1, 5, 257, 4096, 32'001, 151'936, 600'000}) {
    SamplingCase batch = {.stride = vocab + 3, .vocab = vocab};
    const std::size_t num_rows = vocab > 100'000 ? 24 : 64;
    batch.logits = Random(7).floats(static_cast<std::int64_t>(num_rows) * batch.stride, 4.0F);
    for (std::size_t i = 0; i < num_rows; ++i)
      batch.rows.push_back(random_row(random));
    const std::vector<std::int32_t> got = run(batch);
    std::int64_t num_different = 0;
    for (std::size_t i = 0; i < num_rows; ++i)
      num_different += got[i] != sample_row(batch.row(i), batch.rows[i], {}) ? 1 : 0;
    // A draw can fall between the roundings of two probabilities.
    EXPECT_LE(num_different, 1) << "vocabulary of " << vocab;
  }
}

TEST_F(SampleTokens, BreakTiesByTokenId) {
  SamplingCase batch = {.stride = 3000, .vocab = 3000};
  batch.logits.assign(3000 * 4, 1.0F);
  batch.rows = {{},
                {.draw = 0.999, .temperature = 1.0F, .top_k = 10},
                {.top_p = 0.0101, .draw = 0.999, .temperature = 1.0F},
                {.top_p = 0.25, .draw = 0.999, .temperature = 1.0F, .top_k = 10}};
  // The ten and the 31 (1.01 % of 3000) lowest tokens are kept; of ten, three reach a quarter.
  EXPECT_EQ(run(batch), (std::vector<std::int32_t>{0, 9, 30, 2}));
}

TEST_F(SampleTokens, ApplyEdits) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  SamplingCase batch = {.stride = 1000, .vocab = 1000};
  batch.logits.assign(1000 * 4, 0.0F);
  for (std::size_t row = 0; row < 4; ++row)
    batch.logits[row * 1000 + 700] = 5.0F;
  batch.edits = {{.token = 700, .bias = kMasked},
                 {.token = 12, .bias = 1.0F},
                 {.token = 700, .repetition = 10.0F},
                 {.token = 13, .penalty = -0.6F},
                 {.token = 5},
                 {.token = 900, .bias = 0.1F},
                 {.token = 3, .bias = kMasked}};
  batch.rows = {{.first_edit = 0, .num_edits = 2},
                {.first_edit = 2, .num_edits = 2},
                {.first_edit = 4, .num_edits = 2, .masks_unedited = 1},
                {.first_edit = 6, .num_edits = 1, .masks_unedited = 1}};
  EXPECT_EQ(run(batch), (std::vector<std::int32_t>{12, 13, 900, -1}));
}

// Masks with edits, in vocabularies that end within a word, against the reference.
TEST_F(SampleTokens, ApplyMasks) {
  std::mt19937 random(17);
  for (const std::int64_t vocab : {1, 33, 4096, 151'937, 600'001}) {
    SamplingCase batch = {.stride = vocab, .vocab = vocab};
    constexpr std::size_t kRows = 12;
    const auto num_words = static_cast<std::size_t>((vocab + 31) / 32);
    batch.logits = Random(8).floats(static_cast<std::int64_t>(kRows) * vocab, 4.0F);
    for (std::size_t i = 0; i < kRows; ++i) {
      RowSampling row = random_row(random);
      row.first_edit = static_cast<std::int32_t>(batch.edits.size());
      row.num_edits = 1;
      row.masks_unedited = i == 5 ? 1 : 0;
      batch.edits.push_back(
          {.token = static_cast<std::int32_t>(random() % static_cast<unsigned>(vocab)),
           .bias = 3.0F});
      if (i % 4 != 3) row.first_mask = static_cast<std::int32_t>(batch.masks.size());
      for (std::size_t k = 0; k < num_words && i % 4 != 3; ++k)
        batch.masks.push_back(i == 8 ? 0U : static_cast<std::uint32_t>(random() & random()));
      batch.rows.push_back(row);
    }
    const std::vector<std::int32_t> got = run(batch);
    std::int64_t num_different = 0;
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::int32_t want = sample_row(batch.row(i), batch.rows[i], batch.edits, batch.masks);
      num_different += got[i] != want ? 1 : 0;
    }
    EXPECT_EQ(got[8], -1);
    // A draw can fall between the roundings of two probabilities.
    EXPECT_LE(num_different, 1) << "vocabulary of " << vocab;
  }
}

TEST_F(SampleTokens, FailForNanAndInfinity) {
  SamplingCase batch = {.stride = 500, .vocab = 500};
  batch.logits.assign(500 * 4, 0.0F);
  batch.logits[499] = std::numeric_limits<float>::quiet_NaN();
  batch.logits[500 + 3] = std::numeric_limits<float>::infinity();
  std::fill_n(batch.logits.begin() + 1000, 500, -std::numeric_limits<float>::infinity());
  batch.rows.assign(4, {.temperature = 1.0F});
  const std::vector<std::int32_t> got = run(batch);
  EXPECT_EQ(got[0], -1);
  EXPECT_EQ(got[1], -1);
  EXPECT_EQ(got[2], -1);
  EXPECT_GE(got[3], 0);
}

// Chi-squared over 20,000 draws; 3.3 standard deviations above the expectation is the limit.
TEST_F(SampleTokens, FollowTheDistribution) {
  constexpr std::size_t kDraws = 20'000;
  SamplingCase batch = {.stride = 0, .vocab = 400};
  batch.logits = Random(5).floats(400, 2.0F);
  const RowSampling row = {.top_p = 0.9, .temperature = 0.8F, .min_p = 0.01F, .top_k = 60};
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (std::size_t i = 0; i < kDraws; ++i) {
    batch.rows.push_back(row);
    batch.rows.back().draw = uniform(random);
  }
  const std::vector<double> probs = sampling_distribution(batch.row(0), row, {});
  std::vector<double> counts(probs.size());
  for (const std::int32_t token : run(batch))
    ++counts[static_cast<std::size_t>(token)];
  double chi_squared = 0;
  double num_kept = 0;
  for (std::size_t i = 0; i < probs.size(); ++i) {
    if (probs[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " is filtered";
      continue;
    }
    const double expected = probs[i] * kDraws;
    chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++num_kept;
  }
  EXPECT_GT(num_kept, 10);
  EXPECT_LT(chi_squared, num_kept - 1 + 3.3 * std::sqrt(2 * (num_kept - 1)));
}

TEST_F(SampleTokens, DoNotDependOnTheBatch) {
  std::mt19937 random(9);
  SamplingCase batch = {.stride = 50'000, .vocab = 50'000};
  batch.logits = Random(8).floats(40 * 50'000, 3.0F);
  for (int i = 0; i < 40; ++i)
    batch.rows.push_back(random_row(random));
  const std::vector<std::int32_t> together = run(batch);
  for (std::size_t i = 0; i < 40; i += 13) {
    SamplingCase alone = {.stride = 50'000, .vocab = 50'000};
    alone.logits.assign(batch.row(i).begin(), batch.row(i).end());
    alone.rows = {batch.rows[i]};
    EXPECT_EQ(run(alone).front(), together[i]);
  }
}

TEST_F(SampleTokens, ResolveTokensOfThePassBefore) {
  const DeviceArray<std::int32_t> tokens(std::vector<std::int32_t>{70, -1, 72});
  const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{5, -1, -3, -2, 9});
  resolve_tokens(ids.get(), 5, tokens.get(), nullptr);
  EXPECT_EQ(ids.download(), (std::vector<std::int32_t>{5, 70, 72, 0, 9}));
}

}  // namespace
}  // namespace graft::kernels::cuda
