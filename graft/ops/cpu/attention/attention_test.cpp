#include "graft/testing/attention.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

const Kwargs kExactCache = {{"dtype", "f32"}, {"block_tokens", "4"}};
const Kwargs kHalfCache = {{"block_tokens", "4"}};

// Slots that no token wrote must not contribute to a result, not even multiplied by 0.
void fill_with_nan(KvCache& cache, std::int64_t key_size, std::int64_t value_size) {
  cache.allocate(ScheduleRunner::kNumBlocks, cache.block_tokens());
  const std::int64_t num_tokens = ScheduleRunner::kNumBlocks * cache.block_tokens();
  Batch batch;
  batch.sequences.push_back(
      {.num_tokens = num_tokens, .context_len = num_tokens, .block_table = {}});
  batch.sequences[0].block_table.resize(ScheduleRunner::kNumBlocks);
  std::iota(batch.sequences[0].block_table.begin(), batch.sequences[0].block_table.end(), 0);
  Floats keys(static_cast<std::size_t>(num_tokens * key_size), std::nanf(""));
  Floats values(static_cast<std::size_t>(num_tokens * value_size), std::nanf(""));
  ThreadPool pool(1);
  Workspace workspace;
  Pass pass = {.batch = batch, .pool = pool, .workspace = workspace};
  cache.write(view(keys, num_tokens, key_size), view(values, num_tokens, value_size), pass);
}

template <class Model>
std::map<std::int64_t, Floats> run(Model& model,
                                   const Schedule& schedule,
                                   std::size_t num_threads,
                                   Phase phase = Phase::Prefill) {
  ScheduleRunner runner(kHidden, kHidden, model.cache->block_tokens());
  fill_with_nan(*model.cache, Model::kKeySize, Model::kValueSize);
  return runner.run(
      schedule, num_threads,
      [&](TensorView x, TensorView y, Pass& pass) { model.attention->forward(x, y, pass); }, phase);
}

template <class Model>
void expect_plain_results(Model& model,
                          const Schedule& schedule = schedules()[0],
                          Phase phase = Phase::Prefill) {
  const ScheduleRunner inputs(kHidden, kHidden);
  for (const auto& [sequence, got] : run(model, schedule, 2, phase)) {
    std::vector<Floats> rows;
    for (std::size_t p = 0; p < got.size() / kHidden; ++p)
      rows.push_back(inputs.input(sequence, static_cast<std::int64_t>(p)));
    EXPECT_LT(relative_error(got, model.plain(rows)), 1e-5) << "sequence " << sequence;
  }
}

template <class Model>
void expect_same_bits_in_every_schedule(Model& model,
                                        const std::vector<Schedule>& all = schedules(),
                                        Phase phase = Phase::Prefill) {
  const auto want = run(model, all[0], 1, phase);
  for (const Schedule& schedule : all) {
    for (const std::size_t num_threads : {1, 2, 3, 4}) {
      EXPECT_TRUE(same_bits(run(model, schedule, num_threads, phase), want))
          << num_threads << " threads";
    }
  }
}

// Sequences that cross one, two and three borders of KV splits: in one prefill; in a prefill and
// single decode tokens, whose splits run on different threads; in chunks of odd sizes.
std::vector<Schedule> long_schedules() {
  Schedule last_alone = {{{0, 520}}, {{1, 253}}, {{2, 766}}};
  for (int i = 0; i < 4; ++i)
    last_alone.push_back({{i == 0 ? 2 : 0, 1}});
  for (int i = 0; i < 4; ++i)
    last_alone.push_back({{1, 1}, {2, 1}});
  const Schedule chunks = {{{2, 255}, {0, 1}},
                           {{0, 256}, {1, 200}},
                           {{2, 300}},
                           {{1, 57}, {0, 250}, {2, 130}},
                           {{2, 86}, {0, 16}}};
  return {{{{0, 523}, {1, 257}, {2, 771}}}, last_alone, chunks};
}

const Kwargs kLongCache = {{"block_tokens", "16"}};
const Kwargs kLongExactCache = {{"dtype", "f32"}, {"block_tokens", "16"}};

TEST(AttentionCpu, MatchesTheFormula) {
  GqaModel plain(false, 0, kExactCache);
  expect_plain_results(plain);
  GqaModel with_norms(true, 0, kExactCache);
  expect_plain_results(with_norms);
}

TEST(AttentionCpu, SlidingWindowMasksOlderTokens) {
  for (const std::int64_t window : {1, 5, 64, 70}) {
    GqaModel model(true, window, kExactCache);
    expect_plain_results(model);
  }
}

TEST(AttentionCpu, IsInvariantToBatchChunksAndThreads) {
  for (const std::int64_t window : {0, 37}) {
    GqaModel model(true, window, kHalfCache);
    expect_same_bits_in_every_schedule(model);
  }
}

TEST(AttentionCpu, KvSplitsMatchTheFormula) {
  for (const std::int64_t window : {0, 300}) {
    GqaModel model(false, window, kLongExactCache);
    expect_plain_results(model, long_schedules()[0]);
  }
}

TEST(AttentionCpu, KvSplitsAreInvariantToThreads) {
  for (const std::int64_t window : {0, 37, 256, 600}) {
    GqaModel model(true, window, kLongCache);
    expect_same_bits_in_every_schedule(model, long_schedules());
  }
}

// The sink joins the sum once, however the context is split.
TEST(AttentionCpu, SinksMatchTheFormula) {
  for (const std::int64_t window : {0, 1, 70, 300}) {
    GqaModel model(true, window, kExactCache, true);
    expect_plain_results(model);
    GqaModel split(false, window, kLongExactCache, true);
    expect_plain_results(split, long_schedules()[0]);
  }
}

TEST(AttentionCpu, SinksAreInvariantToBatchChunksAndThreads) {
  for (const std::int64_t window : {0, 37, 256}) {
    GqaModel model(true, window, kLongCache, true);
    expect_same_bits_in_every_schedule(model, long_schedules());
  }
}

TEST(AttentionCpu, IsInvariantToTheBlockSize) {
  const Schedule schedule = {{{0, 290}}, {{0, 1}, {1, 140}}};
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    GqaModel sixteen(true, 100, {{"dtype", dtype}, {"block_tokens", "16"}});
    const auto want = run(sixteen, schedule, 2);
    for (const char* block_tokens : {"5", "64", "100"}) {
      GqaModel model(true, 100, {{"dtype", dtype}, {"block_tokens", block_tokens}});
      EXPECT_TRUE(same_bits(run(model, schedule, 3), want)) << dtype << ' ' << block_tokens;
    }
  }
}

// Prefill decodes keys and values first, decode reads them as stored.
TEST(AttentionCpu, StoredRowsHaveTheBitsOfDecodedOnes) {
  for (const char* dtype : {"f32", "f16", "bf16", "fp8", "q8_0", "q4_0"}) {
    for (const std::int64_t window : {0, 100}) {
      WideGqaModel model(true, window, {{"dtype", dtype}, {"block_tokens", "16"}}, true);
      const auto want = run(model, long_schedules()[0], 1);
      EXPECT_TRUE(same_bits(run(model, long_schedules()[1], 1), want)) << dtype << ' ' << window;
      EXPECT_TRUE(same_bits(run(model, long_schedules()[1], 3), want)) << dtype << ' ' << window;
    }
  }
}

TEST(AttentionCpu, StoredRowsMatchTheFormula) {
  for (const std::int64_t window : {0, 100}) {
    WideGqaModel model(true, window, kLongExactCache, true);
    expect_plain_results(model, long_schedules()[1]);
  }
}

TEST(MlaCpu, BothFormsMatchTheFormula) {
  for (const std::int64_t q_lora_rank : {0, 18}) {
    MlaModel absorbed(q_lora_rank, {}, kExactCache);
    expect_plain_results(absorbed);
    MlaModel expanded(q_lora_rank, {{"absorb", "false"}}, kExactCache);
    expect_plain_results(expanded);
  }
}

TEST(MlaCpu, BothFormsAgreeOnAHalfPrecisionCache) {
  MlaModel absorbed(18, {{"absorb", "true"}}, kHalfCache);
  MlaModel expanded(18, {{"absorb", "false"}}, kHalfCache);
  const auto a = run(absorbed, schedules()[3], 2);
  const auto b = run(expanded, schedules()[3], 2);
  for (const auto& [sequence, rows] : a)
    EXPECT_LT(relative_error(rows, b.at(sequence)), 1e-5);
}

TEST(MlaCpu, AbsorbForPrefillAppliesToPrefillOnly) {
  MlaModel mixed(0, {{"absorb_for_prefill", "False"}}, kHalfCache);
  MlaModel absorbed(0, {}, kHalfCache);
  MlaModel expanded(0, {{"absorb", "false"}}, kHalfCache);
  const Schedule schedule = schedules()[0];
  EXPECT_EQ(run(mixed, schedule, 1, Phase::Prefill), run(expanded, schedule, 1, Phase::Prefill));
  EXPECT_EQ(run(mixed, schedule, 1, Phase::Decode), run(absorbed, schedule, 1, Phase::Decode));
}

TEST(MlaCpu, IsInvariantToBatchChunksAndThreads) {
  for (const char* absorb : {"true", "false"}) {
    MlaModel model(18, {{"absorb", absorb}}, kHalfCache);
    expect_same_bits_in_every_schedule(model);
  }
}

TEST(MlaCpu, KvSplitsMatchTheFormulaAndAreInvariantToThreads) {
  for (const char* absorb : {"true", "false"}) {
    MlaModel exact(0, {{"absorb", absorb}}, kLongExactCache);
    expect_plain_results(exact, long_schedules()[0]);
    MlaModel half(0, {{"absorb", absorb}}, kLongCache);
    expect_same_bits_in_every_schedule(half, long_schedules());
  }
}

}  // namespace
}  // namespace graft::ops::cpu
