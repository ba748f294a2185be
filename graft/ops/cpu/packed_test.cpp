#include "graft/ops/cpu/packed.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "graft/ops/cpu/packed_experts.h"
#include "graft/testing/ops.h"

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kPackedHidden = 256;
constexpr std::int64_t kPackedInner = 352;  // eleven output steps: does not divide evenly
constexpr std::int64_t kNumPackedExperts = 5;

const char* const kOneNode = "numa:1 core:4 pu:1";
const char* const kTwoNodes = "numa:2 core:2 pu:1";
const char* const kThreeNodes = "numa:3 core:1 pu:1";

// The experts of a layer, packed on a machine with the described NUMA nodes.
class PackedFixture {
 public:
  explicit PackedFixture(const char* machine) : pool(0, {}, synthetic_cpus(machine)) {
    weights.pack_on(pool);
    Random random;
    for (std::int64_t e = 0; e < kNumPackedExperts; ++e) {
      weights.add(str("m.", e, ".gate_proj.weight"), {kPackedInner, kPackedHidden},
                  random.floats(kPackedInner * kPackedHidden), DType::Q8_0);
      weights.add(str("m.", e, ".up_proj.weight"), {kPackedInner, kPackedHidden},
                  random.floats(kPackedInner * kPackedHidden), DType::Q8_0);
      weights.add(str("m.", e, ".down_proj.weight"), {kPackedHidden, kPackedInner},
                  random.floats(kPackedHidden * kPackedInner), DType::Q8_0);
    }
  }

  ThreadPool pool;
  TestWeights weights;
  Workspace workspace;
  Batch batch;
  Pass pass{.batch = batch, .pool = pool, .workspace = workspace};
};

// The last panel may be partial, and a matrix may have fewer panels than there are nodes.
TEST(PackedCpu, ProductsDoNotDependOnTheNumberOfNodes) {
  constexpr std::int64_t kTokens = 70;
  Floats x = Random(3).floats(kTokens * kPackedHidden);
  for (const std::int64_t rows : {std::int64_t{7}, std::int64_t{75}, kPackedInner}) {
    Floats want;
    for (const char* machine : {kOneNode, kTwoNodes, kThreeNodes}) {
      PackedFixture fixture(machine);
      fixture.weights.add("w", {rows, kPackedHidden}, Random(4).floats(rows * kPackedHidden),
                          DType::Q8_0);
      const Weight weight = fixture.weights.get("w");
      const PackedMatrix matrix = pack({&weight, 1}, fixture.weights).front();
      Floats got(static_cast<std::size_t>(kTokens * rows));
      const PackedProduct product = {.matrix = &matrix, .y = view(got, kTokens, rows)};
      multiply(view(x, kTokens, kPackedHidden), {&product, 1}, fixture.pass);
      if (want.empty()) want = got;
      EXPECT_EQ(got, want) << rows << " rows, " << machine;
    }
  }
}

TEST(PackedCpu, MultipliesRangesAcrossSlices) {
  PackedFixture fixture(kThreeNodes);
  const PackedMatrix matrix =
      pack(fixture.weights.experts("m", "up_proj"), fixture.weights).front();
  ASSERT_EQ(matrix.slices().size(), 3U);
  const QuantizedRows quantized(DType::Q8_0, kPackedHidden, 1, fixture.workspace);
  const Floats x = Random(3).floats(kPackedHidden);
  const float* const row = x.data();
  quantized.quantize(0, &row, 1);
  Floats whole(kPackedInner);
  Floats steps(kPackedInner);
  multiply_range(matrix, 0, kPackedInner, quantized.from(0), 1, whole.data(), kPackedInner);
  for (std::int64_t begin = 0; begin < kPackedInner; begin += kOutputStep) {
    multiply_range(matrix, begin, kOutputStep, quantized.from(0), 1, steps.data() + begin,
                   kPackedInner);
  }
  EXPECT_EQ(whole, steps);
}

TEST(PackedExperts, OutputsDoNotDependOnTheNumberOfNodes) {
  constexpr std::int64_t kTopK = 3;
  for (const std::int64_t num_tokens : {1, 40}) {
    const std::int64_t num_pairs = num_tokens * kTopK;
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < num_pairs; ++i)  // distinct per token; the last expert gets none
      ids.push_back(static_cast<std::int32_t>((i / kTopK + i % kTopK) % (kNumPackedExperts - 1)));
    ExpertGroups sorted;
    sorted.sort(ids, kTopK, kNumPackedExperts);
    Floats x = Random(3).floats(num_tokens * kPackedHidden);
    Floats want;
    for (const char* machine : {kOneNode, kTwoNodes, kThreeNodes}) {
      PackedFixture fixture(machine);
      TestWeights& weights = fixture.weights;
      PackedExperts experts(weights.experts("m", "gate_proj"), weights.experts("m", "up_proj"),
                            weights.experts("m", "down_proj"), weights);
      Floats got(static_cast<std::size_t>(num_pairs * kPackedHidden));
      const ExpertActivation activation({.num_experts = kNumPackedExperts,
                                         .top_k = kTopK,
                                         .hidden_size = kPackedHidden,
                                         .intermediate_size = kPackedInner});
      const TensorView in = view(x, num_tokens, kPackedHidden);
      experts.forward({.gate = in, .up = in}, sorted, activation,
                      view(got, num_pairs, kPackedHidden), fixture.pass);
      if (want.empty()) want = got;
      EXPECT_EQ(got, want) << num_tokens << " tokens, " << machine;
    }
  }
}

}  // namespace
}  // namespace graft::ops::cpu
