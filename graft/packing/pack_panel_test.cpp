#include "graft/packing/pack_panel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "graft/packing/panel_layout.h"

namespace graft::packing {
namespace {

// Files of packed weights store the version of the layout. When this fails, increment
// kPanelLayoutVersion and update the hash here.
TEST(PackPanel, WritesTheBytesOfItsLayoutVersion) {
  std::uint64_t sum = 0xcbf29ce484222325;  // FNV-1a
  for (const auto& [type, format] : kPackedTypes) {
    const std::int64_t cols =
        2 * std::max<std::int64_t>(info(type).block_elems, chunk_cols(format));
    const std::size_t row_bytes = bytes_of(type, cols);
    std::vector<std::byte> rows(13 * row_bytes);  // the last three rows of the panel are zeros
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<std::byte>(i * i % 251 + i / 7);
    std::vector<std::byte> panel(static_cast<std::size_t>(panel_bytes(format, cols)));
    pack_panel(type,
               {.data = rows.data(),
                .rows = 13,
                .cols = cols,
                .stride = static_cast<std::int64_t>(row_bytes)},
               quant::reference_codecs(), panel.data());
    for (const std::byte byte : panel)
      sum = (sum ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  }
  EXPECT_EQ(kPanelLayoutVersion, 2U);
  EXPECT_EQ(sum, 13008564468640410699U);
}

TEST(PanelLayout, IsAtMostSixPercentLargerThanTheStoredRows) {
  for (const auto& [type, format] : kPackedTypes) {
    if (format.as_bf16) continue;
    const auto packed = static_cast<double>(panel_bytes(format, 4096));
    EXPECT_LE(packed, 1.06 * 16 * static_cast<double>(bytes_of(type, 4096))) << name(type);
  }
}

TEST(PanelLayout, StoredWordsTakeNoMoreThanTheStoredRows) {
  for (const auto& [type, format] : kPackedTypes) {
    if (format.stored_words == 0) continue;
    EXPECT_EQ(panel_bytes(format, 512), 16 * static_cast<std::int64_t>(bytes_of(type, 512)))
        << name(type);
  }
}

// The table in panel_layout.h.
TEST(PanelLayout, HeadersAreAsDocumented) {
  struct Row {
    DType type;
    std::int64_t header_bytes;
  };
  constexpr Row kRows[] = {
      {DType::Q4_0, 32},    {DType::Q5_0, 32},  {DType::Q8_0, 32},    {DType::IQ4_NL, 32},
      {DType::Q4_1, 64},    {DType::Q5_1, 64},  {DType::MXFP4, 16},   {DType::Q3_K, 288},
      {DType::Q6_K, 288},   {DType::Q4_K, 320}, {DType::Q5_K, 320},   {DType::Q2_K, 320},
      {DType::IQ4_XS, 160}, {DType::BF16, 0},   {DType::F8_E4M3, 64}, {DType::F8_E5M2, 64},
      {DType::F16, 0},      {DType::IQ1_S, 32}, {DType::IQ1_M, 0},    {DType::IQ2_XXS, 32},
      {DType::IQ2_XS, 32},  {DType::IQ2_S, 32}, {DType::IQ3_XXS, 32}, {DType::IQ3_S, 32},
      {DType::TQ1_0, 32},   {DType::TQ2_0, 32},
  };
  static_assert(std::size(kRows) == kPackedTypes.size());
  for (const auto& [type, header_bytes] : kRows)
    EXPECT_EQ(chunk_header_bytes(packed_format(type)), header_bytes) << name(type);
}

TEST(PanelLayout, PadsTheLastPanelOfAMatrix) {
  const std::int64_t panel = panel_bytes(packed_format(DType::Q4_K), 512);
  EXPECT_EQ(panel, 2 * 2368);  // two chunks: see the drawing
  EXPECT_EQ(packed_bytes(DType::Q4_K, 0, 512), 0);
  EXPECT_EQ(packed_bytes(DType::Q4_K, 1, 512), panel);
  EXPECT_EQ(packed_bytes(DType::Q4_K, 16, 512), panel);
  EXPECT_EQ(packed_bytes(DType::Q4_K, 17, 512), 2 * panel);
}

}  // namespace
}  // namespace graft::packing
