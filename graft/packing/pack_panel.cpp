#include "graft/packing/pack_panel.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "graft/base/check.h"
#include "graft/packing/pack_chunk.h"
#include "graft/packing/panel_layout.h"
#include "graft/packing/stored_words.h"
#include "graft/quant/blocks.h"

// Offsets inside a chunk fit an int.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)
namespace graft::packing {
namespace {

using quant::StoredRows;

template <DType kType, class Block>
void pack_rows(const StoredRows& rows, const quant::CodecTable& /*codecs*/, std::byte* panel) {
  constexpr PackedFormat kFormat = packed_format(kType);
  static_assert(chunk_cols(kFormat) == info(kType).block_elems);
  RowChunk chunk;
  for (std::int64_t c = 0; c < rows.cols / chunk_cols(kFormat); ++c) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      read_block(reinterpret_cast<const Block*>(rows.data + row * rows.stride)[c], chunk);
      store_chunk<kFormat>(chunk, panel + c * chunk_bytes(kFormat), row);
    }
  }
}

// Words of 16 rows side by side.
template <DType kType, class Block>
void pack_words(const StoredRows& rows, const quant::CodecTable& /*codecs*/, std::byte* panel) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr std::int64_t kHeader = chunk_header_bytes(kFormat);
  std::uint32_t words[kFormat.stored_words];
  for (std::int64_t c = 0; c < rows.cols / chunk_cols(kFormat);
       ++c, panel += chunk_bytes(kFormat)) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      const auto* blocks = reinterpret_cast<const Block*>(rows.data + row * rows.stride);
      const quant::F16Bits d = stored_words(blocks[c], words);
      if constexpr (kHeader != 0) std::memcpy(panel + 2 * row, &d, sizeof(d));
      for (int w = 0; w < kFormat.stored_words; ++w)
        store_word(panel + kHeader, row, w, words[w]);
    }
  }
}

// Reads 32 BF16 or F16 values of a row as bf16.
template <DType kType>
void read_bf16(const std::byte* from, const quant::CodecTable& codecs, std::byte* halves) {
  if constexpr (kType == DType::BF16) {
    std::memcpy(halves, from, 2 * kBlockCols);
  } else {
    std::array<float, kBlockCols> values;
    codecs[static_cast<std::size_t>(kType)].decode(from, values.data(), values.size());
    codecs[static_cast<std::size_t>(DType::BF16)].encode(values.data(), halves, values.size());
  }
}

// Column pairs of 16 rows side by side: see panel_layout.h.
template <DType kType>
void pack_bf16(const StoredRows& rows, const quant::CodecTable& codecs, std::byte* panel) {
  for (std::int64_t c = 0; c < rows.cols; c += kBlockCols, panel += 2 * kBlockCols * kPanelRows) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      std::array<std::byte, 2 * kBlockCols> halves;
      read_bf16<kType>(rows.data + row * rows.stride + 2 * c, codecs, halves.data());
      for (int pair = 0; pair < kBlockCols / 2; ++pair)
        std::memcpy(panel + 64 * pair + 4 * row, halves.data() + 4 * pair, 4);
    }
  }
}

template <DType kType>
void pack_fp8(const StoredRows& rows, const quant::CodecTable& /*codecs*/, std::byte* panel) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr std::int64_t kCols = chunk_cols(kFormat);
  for (std::int64_t c = 0; c < rows.cols; c += kCols, panel += chunk_bytes(kFormat)) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      const float scale = rows.scales == nullptr ? 1.0F : rows.scales[row][c / rows.cols_per_scale];
      std::memcpy(panel + 4 * row, &scale, sizeof(scale));
      const std::byte* from = rows.data + row * rows.stride + c;
      std::byte* codes = panel + chunk_header_bytes(kFormat) + 2 * row;
      for (std::int64_t pair = 0; pair < kCols / 2; ++pair)
        std::memcpy(codes + 2 * kPanelRows * pair, from + 2 * pair, 2);
    }
  }
}

using PackRows = void (*)(const StoredRows& rows,
                          const quant::CodecTable& codecs,
                          std::byte* panel);

struct PackRow {
  DType dtype;
  PackRows pack;
};

constexpr std::array kPackRows = {
    PackRow{DType::Q4_0, pack_rows<DType::Q4_0, quant::BlockQ40>},
    PackRow{DType::Q4_1, pack_rows<DType::Q4_1, quant::BlockQ41>},
    PackRow{DType::Q5_0, pack_rows<DType::Q5_0, quant::BlockQ50>},
    PackRow{DType::Q5_1, pack_rows<DType::Q5_1, quant::BlockQ51>},
    PackRow{DType::Q8_0, pack_rows<DType::Q8_0, quant::BlockQ80>},
    PackRow{DType::Q2_K, pack_rows<DType::Q2_K, quant::BlockQ2K>},
    PackRow{DType::Q3_K, pack_rows<DType::Q3_K, quant::BlockQ3K>},
    PackRow{DType::Q4_K, pack_rows<DType::Q4_K, quant::BlockQ4K>},
    PackRow{DType::Q5_K, pack_rows<DType::Q5_K, quant::BlockQ5K>},
    PackRow{DType::Q6_K, pack_rows<DType::Q6_K, quant::BlockQ6K>},
    PackRow{DType::IQ4_NL, pack_rows<DType::IQ4_NL, quant::BlockIQ4NL>},
    PackRow{DType::IQ4_XS, pack_rows<DType::IQ4_XS, quant::BlockIQ4XS>},
    PackRow{DType::MXFP4, pack_rows<DType::MXFP4, quant::BlockMXFP4>},
    PackRow{DType::IQ1_S, pack_words<DType::IQ1_S, quant::BlockIQ1S>},
    PackRow{DType::IQ1_M, pack_words<DType::IQ1_M, quant::BlockIQ1M>},
    PackRow{DType::IQ2_XXS, pack_words<DType::IQ2_XXS, quant::BlockIQ2XXS>},
    PackRow{DType::IQ2_XS, pack_words<DType::IQ2_XS, quant::BlockIQ2XS>},
    PackRow{DType::IQ2_S, pack_words<DType::IQ2_S, quant::BlockIQ2S>},
    PackRow{DType::IQ3_XXS, pack_words<DType::IQ3_XXS, quant::BlockIQ3XXS>},
    PackRow{DType::IQ3_S, pack_words<DType::IQ3_S, quant::BlockIQ3S>},
    PackRow{DType::TQ1_0, pack_words<DType::TQ1_0, quant::BlockTQ10>},
    PackRow{DType::TQ2_0, pack_rows<DType::TQ2_0, quant::BlockTQ20>},
    PackRow{DType::BF16, pack_bf16<DType::BF16>},
    PackRow{DType::F16, pack_bf16<DType::F16>},
    PackRow{DType::F8_E4M3, pack_fp8<DType::F8_E4M3>},
    PackRow{DType::F8_E5M2, pack_fp8<DType::F8_E5M2>},
};
static_assert(kPackRows.size() == kPackedTypes.size());

}  // namespace

void pack_panel(DType type,
                const quant::StoredRows& rows,
                const quant::CodecTable& codecs,
                std::byte* panel) {
  const auto* found = std::ranges::find(kPackRows, type, &PackRow::dtype);
  GRAFT_CHECK(found != kPackRows.end(), name(type), " has no packed layout");
  if (rows.rows < kPanelRows) {
    std::memset(panel, 0, static_cast<std::size_t>(panel_bytes(packed_format(type), rows.cols)));
  }
  found->pack(rows, codecs, panel);
}

}  // namespace graft::packing
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
