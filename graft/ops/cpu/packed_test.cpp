#include "graft/ops/cpu/packed.h"

#include <array>
#include <cstdint>
#include <set>

#include <gtest/gtest.h>

#include "graft/ops/cpu/packed_experts.h"
#include "graft/testing/ops.h"

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kInner = 352;  // eleven steps of the kernels: no even shares
constexpr std::int64_t kNumExperts = 5;

const char* const kOneNode = "numa:1 core:4 pu:1";
const char* const kTwoNodes = "numa:2 core:2 pu:1";
const char* const kThreeNodes = "numa:3 core:1 pu:1";

// Weights of a layer's experts, packed by the threads of some machine.
class Packing {
 public:
  explicit Packing(const char* machine) : pool(0, {}, described_processors(machine)) {
    weights.loading_pool = &pool;
    Random random;
    for (std::int64_t e = 0; e < kNumExperts; ++e) {
      weights.add(str("m.", e, ".gate_proj.weight"), {kInner, kHidden},
                  random.floats(kInner * kHidden), DType::Q8_0);
      weights.add(str("m.", e, ".up_proj.weight"), {kInner, kHidden},
                  random.floats(kInner * kHidden), DType::Q8_0);
      weights.add(str("m.", e, ".down_proj.weight"), {kHidden, kInner},
                  random.floats(kHidden * kInner), DType::Q8_0);
    }
  }

  std::vector<PackedMatrix> pack_all(const char* projection) {
    return pack(weights.experts("m", projection), weights);
  }

  ThreadPool pool;
  TestWeights weights;
  Workspace workspace;
  Batch batch;
  Pass pass{.batch = batch, .pool = pool, .workspace = workspace};
};

// Memory is given to nodes in pages, of two megabytes where large matrices are.
std::uintptr_t large_page_of(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) >> 21;
}

TEST(PackedCpu, WhatANodeReadsLiesTogether) {
  Packing packing(kTwoNodes);
  std::array<const std::byte*, 2> last_of_node = {};
  std::array<std::set<std::uintptr_t>, 2> pages_of_node;
  for (const char* projection : {"gate_proj", "up_proj"}) {
    for (const PackedMatrix& matrix : packing.pack_all(projection)) {
      for (std::int64_t row = 0; row < kInner; row += kernels::cpu::kPanelRows) {
        // Eleven steps: five for the first node, the others for the second.
        const std::size_t node = row < 160 ? 0 : 1;
        EXPECT_GT(matrix.panel(row), last_of_node[node]) << row;
        last_of_node[node] = matrix.panel(row);
        pages_of_node[node].insert(large_page_of(matrix.panel(row)));
      }
    }
  }
  EXPECT_EQ(pages_of_node[0].size(), 1U);  // of both operators
  EXPECT_EQ(pages_of_node[1].size(), 1U);
  EXPECT_NE(pages_of_node[0], pages_of_node[1]);
}

TEST(PackedCpu, OnOneNodeMatricesFollowEachOther) {
  Packing packing(kOneNode);
  const std::vector<PackedMatrix> matrices = packing.pack_all("gate_proj");
  for (std::size_t e = 0; e + 1 < matrices.size(); ++e)
    EXPECT_EQ(matrices[e].panel(0) + matrices[e].bytes(), matrices[e + 1].panel(0));
}

// Their last panel may be half empty, and there may be fewer of them than nodes.
TEST(PackedCpu, ProductsAreTheSameOnAnyNumberOfNodes) {
  constexpr std::int64_t kTokens = 70;
  Floats x = Random(3).floats(kTokens * kHidden);
  for (const std::int64_t rows : {std::int64_t{7}, std::int64_t{75}, kInner}) {
    Floats want;
    for (const char* machine : {kOneNode, kTwoNodes, kThreeNodes}) {
      Packing packing(machine);
      packing.weights.add("w", {rows, kHidden}, Random(4).floats(rows * kHidden), DType::Q8_0);
      const Weight weight = packing.weights.get("w");
      const PackedMatrix matrix = pack({&weight, 1}, packing.weights).front();
      Floats got(static_cast<std::size_t>(kTokens * rows));
      const PackedProduct product = {.matrix = &matrix, .y = view(got, kTokens, rows)};
      multiply(view(x, kTokens, kHidden), {&product, 1}, packing.pass);
      if (want.empty()) want = got;
      EXPECT_EQ(got, want) << rows << " rows, " << machine;
    }
  }
}

TEST(PackedCpu, PiecesMayReachAcrossSlices) {
  Packing packing(kThreeNodes);
  const PackedMatrix matrix = packing.pack_all("up_proj").front();
  const QuantizedRows rounded(DType::Q8_0, kHidden, 1, packing.workspace);
  const Floats x = Random(3).floats(kHidden);
  const float* const row = x.data();
  rounded.round(0, &row, 1);
  Floats whole(kInner);
  Floats steps(kInner);
  matrix.multiply(0, kInner, rounded.from(0), 1, whole.data(), kInner);
  for (std::int64_t begin = 0; begin < kInner; begin += kOutputStep)
    matrix.multiply(begin, kOutputStep, rounded.from(0), 1, steps.data() + begin, kInner);
  EXPECT_EQ(whole, steps);
}

TEST(PackedExperts, AreTheSameOnAnyNumberOfNodes) {
  constexpr std::int64_t kTopK = 3;
  for (const std::int64_t num_tokens : {1, 40}) {
    const std::int64_t num_pairs = num_tokens * kTopK;
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < num_pairs; ++i)  // a token's are different, and the last has none
      ids.push_back(static_cast<std::int32_t>((i / kTopK + i % kTopK) % (kNumExperts - 1)));
    ExpertGroups sorted;
    sorted.sort(ids, kTopK, kNumExperts);
    Floats x = Random(3).floats(num_tokens * kHidden);
    Floats want;
    for (const char* machine : {kOneNode, kTwoNodes, kThreeNodes}) {
      Packing packing(machine);
      TestWeights& weights = packing.weights;
      PackedExperts experts(weights.experts("m", "gate_proj"), weights.experts("m", "up_proj"),
                            weights.experts("m", "down_proj"), weights);
      Floats got(static_cast<std::size_t>(num_pairs * kHidden));
      experts.forward(view(x, num_tokens, kHidden), sorted, view(got, num_pairs, kHidden),
                      packing.pass);
      if (want.empty()) want = got;
      EXPECT_EQ(got, want) << num_tokens << " tokens, " << machine;
    }
  }
}

}  // namespace
}  // namespace graft::ops::cpu
