#include "graft/packing/packer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/cpus.h"
#include "graft/packing/pack_panel.h"

namespace graft::packing {
namespace {

constexpr std::int64_t kRows = 352;  // eleven steps of two panels: does not divide evenly
constexpr std::int64_t kCols = 256;
constexpr std::size_t kNumMatrices = 5;

const char* const kOneNode = "numa:1 core:4 pu:1";
const char* const kTwoNodes = "numa:2 core:2 pu:1";
const char* const kThreeNodes = "numa:3 core:1 pu:1";

class PackerTest : public testing::Test {
 protected:
  PackerTest() {
    for (std::size_t m = 0; m < kNumMatrices; ++m) {
      data_.emplace_back(bytes_of(DType::Q8_0, kRows * kCols));
      for (std::size_t i = 0; i < data_.back().size(); ++i)
        data_.back()[i] = static_cast<std::byte>(i * i % 251 + m);
    }
  }

  // The first `rows` rows of every matrix.
  std::vector<StoredMatrix> matrices(std::int64_t rows = kRows) const {
    std::vector<StoredMatrix> stored;
    for (const std::vector<std::byte>& data : data_) {
      stored.push_back({.name = "weight",
                        .dtype = DType::Q8_0,
                        .rows = rows,
                        .cols = kCols,
                        .data = data.data()});
    }
    return stored;
  }

  std::vector<std::vector<std::byte>> data_;
};

std::vector<std::byte> panels_of(const PackedMatrix& matrix) {
  const auto bytes = static_cast<std::size_t>(panel_bytes(packed_format(DType::Q8_0), kCols));
  std::vector<std::byte> all;
  for (std::int64_t row = 0; row < matrix.rows(); row += kPanelRows)
    all.insert(all.end(), matrix.panel(row), matrix.panel(row) + bytes);
  return all;
}

// Huge pages are 2 MiB; a page belongs to one NUMA node.
std::uintptr_t huge_page_of(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) >> 21;
}

TEST_F(PackerTest, SlicesOfANodeAreContiguous) {
  ThreadPool pool(0, {}, synthetic_cpus(kTwoNodes));
  Packer packer(&pool);
  std::array<const std::byte*, 2> last_of_node = {};
  std::array<std::set<std::uintptr_t>, 2> pages_of_node;
  std::vector<std::vector<PackedMatrix>> kept;
  for (int call = 0; call < 2; ++call) {
    kept.push_back(packer.pack(matrices(), quant::reference_codecs()));
    for (const PackedMatrix& matrix : kept.back()) {
      for (std::int64_t row = 0; row < kRows; row += kPanelRows) {
        // Eleven steps: five on the first node, six on the second.
        const std::size_t node = row < 160 ? 0 : 1;
        EXPECT_GT(matrix.panel(row), last_of_node[node]) << row;
        last_of_node[node] = matrix.panel(row);
        pages_of_node[node].insert(huge_page_of(matrix.panel(row)));
      }
    }
  }
  EXPECT_EQ(pages_of_node[0].size(), 1U);  // shared by both calls
  EXPECT_EQ(pages_of_node[1].size(), 1U);
  EXPECT_NE(pages_of_node[0], pages_of_node[1]);
}

TEST_F(PackerTest, MatricesAreContiguousOnOneNode) {
  ThreadPool pool(0, {}, synthetic_cpus(kOneNode));
  const std::vector<PackedMatrix> packed =
      Packer(&pool).pack(matrices(), quant::reference_codecs());
  for (std::size_t m = 0; m + 1 < packed.size(); ++m)
    EXPECT_EQ(packed[m].panel(0) + packed[m].bytes(), packed[m + 1].panel(0));
}

// The last panel may be partial, and a matrix may have fewer panels than there are nodes.
TEST_F(PackerTest, PanelsDoNotDependOnNodesOrThreads) {
  for (const std::int64_t rows : {std::int64_t{7}, std::int64_t{75}, kRows}) {
    const std::vector<PackedMatrix> want =
        Packer(nullptr).pack(matrices(rows), quant::reference_codecs());
    for (const char* machine : {kOneNode, kTwoNodes, kThreeNodes}) {
      ThreadPool pool(0, {}, synthetic_cpus(machine));
      const std::vector<PackedMatrix> got =
          Packer(&pool).pack(matrices(rows), quant::reference_codecs());
      ASSERT_EQ(got.size(), kNumMatrices);
      for (std::size_t m = 0; m < kNumMatrices; ++m) {
        EXPECT_EQ(got[m].rows(), rows);
        EXPECT_EQ(panels_of(got[m]), panels_of(want[m])) << rows << " rows, " << machine;
      }
    }
  }
}

TEST_F(PackerTest, PacksTheScalesOfFp8Weights) {
  constexpr std::int64_t kTile = 128;
  const quant::ScaleLayout layout = quant::ScaleLayout::fit(
      std::array{kRows, kCols}, std::array{kRows / kTile + 1, kCols / kTile});
  std::vector<float> scales(static_cast<std::size_t>(layout.num_scales()));
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = static_cast<float>(i + 1);
  const StoredMatrix matrix = {.name = "weight",
                               .dtype = DType::F8_E4M3,
                               .rows = kRows,
                               .cols = kCols,
                               .data = data_[0].data(),
                               .scale_layout = &layout,
                               .scales = scales.data()};
  const PackedMatrix packed = Packer(nullptr).pack({&matrix, 1}, quant::reference_codecs()).front();
  // The chunk of columns 128..255 begins with the scales of its 16 rows.
  const std::byte* chunk = packed.panel(256) + chunk_bytes(packed_format(DType::F8_E4M3));
  EXPECT_EQ(reinterpret_cast<const float*>(chunk)[5], scales[2 * 2 + 1]);
}

}  // namespace
}  // namespace graft::packing
