#include "graft/ops/experts/expert_copies.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

namespace graft::ops {
namespace {

using packing::PackedMatrix;

constexpr std::int64_t kRows = 64;
constexpr std::int64_t kCols = 256;
constexpr std::int64_t kExperts = 5;

// Packed experts of Q4_K whose bytes are a running count. With two nodes, each node holds half of
// every matrix's rows.
class PackedLayer {
 public:
  explicit PackedLayer(std::size_t num_nodes)
      : matrix_bytes_(static_cast<std::size_t>(packing::packed_bytes(DType::Q4_K, kRows, kCols))),
        memory_(3 * kExperts * matrix_bytes_) {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      memory_[i] = static_cast<std::byte>(i * 31 / 7);
    const std::int64_t slice_rows = kRows / static_cast<std::int64_t>(num_nodes);
    const std::size_t slice_bytes = matrix_bytes_ / num_nodes;
    for (std::size_t p = 0; p < 3; ++p) {
      for (std::size_t e = 0; e < kExperts; ++e) {
        std::vector<PackedMatrix::Slice> slices;
        for (std::size_t node = 0; node < num_nodes; ++node) {
          const std::size_t at = (node * 3 * kExperts + p * kExperts + e) * slice_bytes;
          const std::int64_t begin = static_cast<std::int64_t>(node) * slice_rows;
          slices.push_back(
              {.begin = begin, .end = begin + slice_rows, .panels = memory_.data() + at});
        }
        matrices_[p].emplace_back(DType::Q4_K, kRows, kCols, std::move(slices), nullptr);
      }
    }
  }

  ExpertStore store() const {
    return {.gate_proj = {.packed = matrices_[0]},
            .up_proj = {.packed = matrices_[1]},
            .down_proj = {.packed = matrices_[2]}};
  }
  // The panels of a matrix, slice after slice.
  std::vector<std::byte> panels(std::size_t projection, std::int64_t expert) const {
    std::vector<std::byte> bytes;
    for (const auto& slice : matrices_[projection][static_cast<std::size_t>(expert)].slices())
      bytes.insert(
          bytes.end(), slice.panels,
          slice.panels + packing::packed_bytes(DType::Q4_K, slice.end - slice.begin, kCols));
    return bytes;
  }
  std::size_t matrix_bytes() const { return matrix_bytes_; }

 private:
  std::size_t matrix_bytes_;
  std::vector<std::byte> memory_;
  std::vector<PackedMatrix> matrices_[3];
};

// Runs the copies of every group and compares each used expert with its panels.
void expect_right(const PackedLayer& layer, std::size_t max_group_bytes, std::uint8_t first_used) {
  const ExpertCopies copies(layer.store(), max_group_bytes);
  std::vector<std::uint8_t> is_used(kExperts, 1);
  is_used[0] = first_used;
  std::int64_t num_seen = 0;
  for (std::int64_t g = 0; g < copies.num_groups(); ++g) {
    std::vector<std::byte> group(copies.group_bytes());
    for (const HostCopy& copy : copies.copies_of(g, is_used)) {
      ASSERT_LE(copy.to + copy.bytes, group.size());
      std::memcpy(group.data() + copy.to, copy.from, copy.bytes);
    }
    const ExpertRange experts = copies.experts_of(g);
    for (std::int64_t e = experts.begin; e < experts.end; ++e, ++num_seen) {
      if (is_used[static_cast<std::size_t>(e)] == 0) continue;
      for (std::size_t p = 0; p < 3; ++p) {
        const std::vector<std::byte> expected = layer.panels(p, e);
        const std::byte* at = group.data() + copies.offset_of(p, experts.size()) +
                              static_cast<std::size_t>(e - experts.begin) * copies.matrix_bytes(p);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), at)) << "expert " << e;
      }
    }
  }
  EXPECT_EQ(num_seen, kExperts);
}

TEST(ExpertCopies, BringEveryUsedExpertToItsPlace) {
  for (const std::size_t nodes : {1, 2}) {
    const PackedLayer layer(nodes);
    for (const std::size_t experts : {1, 2, 3, 5, 100}) {
      expect_right(layer, experts * 3 * layer.matrix_bytes(), 1);
      expect_right(layer, experts * 3 * layer.matrix_bytes(), 0);
    }
  }
}

TEST(ExpertCopies, AreFewWhenMemoryIsContiguous) {
  const PackedLayer layer(1);
  const ExpertCopies copies(layer.store(), std::size_t{1} << 30U);
  EXPECT_EQ(copies.num_groups(), 1);
  std::vector<std::uint8_t> is_used(kExperts, 1);
  // The projections follow each other on both sides.
  EXPECT_EQ(copies.copies_of(0, is_used).size(), 1U);
  is_used[2] = 0;
  EXPECT_EQ(copies.copies_of(0, is_used).size(), 4U);
}

TEST(ExpertCopies, GroupsHaveNearlyEqualSizes) {
  const PackedLayer layer(1);
  const ExpertCopies copies(layer.store(), 4 * 3 * layer.matrix_bytes());
  EXPECT_EQ(copies.num_groups(), 2);
  EXPECT_EQ(copies.experts_of(0), (ExpertRange{.begin = 0, .end = 3}));
  EXPECT_EQ(copies.experts_of(1), (ExpertRange{.begin = 3, .end = 5}));
}

TEST(ExpertCopies, NeedOneTypeAndShapePerProjection) {
  const PackedLayer layer(1);
  EXPECT_TRUE(ExpertCopies::is_uniform(layer.store()));
  std::vector<Weight> stored(2);
  stored[0] = {.name = "a", .dtype = DType::Q4_K, .shape = {16, 256}};
  stored[1] = {.name = "b", .dtype = DType::Q6_K, .shape = {16, 256}};
  ExpertStore store = layer.store();
  store.down_proj = {.stored = stored};
  EXPECT_FALSE(ExpertCopies::is_uniform(store));
  stored[1].dtype = DType::Q4_K;
  EXPECT_TRUE(ExpertCopies::is_uniform(store));
  stored[1].shape = {32, 256};
  EXPECT_FALSE(ExpertCopies::is_uniform(store));
}

}  // namespace
}  // namespace graft::ops
