#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "graft/kernels/cpu/packed/packed.h"
#include "graft/kernels/cpu/packed/unpacked_panel.h"
#include "graft/packing/pack_panel.h"

namespace graft::kernels::cpu {
namespace {

// Value of column c of a panel row.
float value_of(const UnpackedPanel& panel, PackedFormat format, std::int64_t row, std::int64_t c) {
  const std::int64_t block = c / kBlockCols;
  const std::int64_t i = c % kBlockCols;
  const int code = std::to_integer<int>(panel.codes[block][64 * (i / 4) + 4 * row + i % 4]);
  return static_cast<float>(code - format.offset) * panel.scales[block][i / format.group][row];
}

bool is_same(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// Any bytes decode as the codec does: also NaN scales and codes that no encoder writes.
TEST(StoredWords, UnpackToTheStoredValues) {
  constexpr std::int64_t kCols = kBlocksAtOnce * kBlockCols;
  std::mt19937 random(1);
  for (const auto& [type, format] : kPackedTypes) {
    if (format.stored_words == 0) continue;
    const std::size_t row_bytes = bytes_of(type, kCols);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::byte> stored(kPanelRows * row_bytes);
      for (std::byte& byte : stored)
        byte = round == 0 ? std::byte{0xff} : static_cast<std::byte>(random());
      std::vector<std::byte> panel(static_cast<std::size_t>(panel_bytes(format, kCols)));
      packing::pack_panel(type,
                          {.data = stored.data(),
                           .rows = kPanelRows,
                           .cols = kCols,
                           .stride = static_cast<std::int64_t>(row_bytes)},
                          quant::reference_codecs(), panel.data());
      std::vector<float> want(kPanelRows * kCols);
      quant::reference_codecs()[static_cast<std::size_t>(type)].decode(stored.data(), want.data(),
                                                                       want.size());
      for (const NamedUnpackers& level : runnable_stored_unpackers()) {
        UnpackedPanel unpacked;
        (*level.unpackers)[static_cast<std::size_t>(type)](panel.data(), kBlocksAtOnce, unpacked);
        for (std::int64_t row = 0; row < kPanelRows; ++row) {
          for (std::int64_t c = 0; c < kCols; ++c) {
            ASSERT_TRUE(is_same(value_of(unpacked, format, row, c),
                                want[static_cast<std::size_t>(row * kCols + c)]))
                << level.name << " " << name(type) << " row " << row << " column " << c;
          }
        }
      }
    }
  }
}

TEST(StoredWords, AreUnpackedAtEveryLevel) {
  for (const auto& [type, format] : kPackedTypes) {
    for (const NamedUnpackers& level : runnable_stored_unpackers()) {
      EXPECT_EQ((*level.unpackers)[static_cast<std::size_t>(type)] != nullptr,
                format.stored_words != 0)
          << level.name << " " << name(type);
    }
  }
}

}  // namespace
}  // namespace graft::kernels::cpu
