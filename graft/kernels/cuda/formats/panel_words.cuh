// One row of 32 columns of a panel of a type with stored words (graft/packing/panel_layout.h), as
// panel_blocks.cuh describes. Words have the order of the stored blocks (graft/quant/blocks.h).

#pragma once

#include "graft/kernels/cuda/formats/formats_iq.cuh"
#include "graft/kernels/cuda/formats/panel_layout.cuh"

namespace graft::kernels::cuda {

// The words of a row in a chunk.
struct RowWords {
  const std::uint8_t* chunk;
  const std::uint8_t* words;
  int row;

  __device__ std::uint32_t at(int word) const { return load_line(words, word, row); }
  __device__ float d() const { return load_f16(chunk + 2 * row); }
};

// 32 columns of a row of a grid type.
struct GridWords {
  std::uint32_t rows[2] = {0, 0};  // low 8 bits of the row indices; only IQ3 has the second word
  std::uint32_t high = 0;          // upper bits of the row indices, from bit kStride k on
  std::uint32_t signs = 0;         // of IQ1, bit k: delta of row k is negative
  float scales[2] = {0, 0};
};

// How a grid type stores 32 columns: its upper index bits and read().
template <DType kType>
struct GridPanel;

template <>
struct GridPanel<DType::IQ2_XXS> {
  static constexpr int kStride = 0;
  static constexpr std::uint32_t kHighMask = 0;
  static constexpr bool kSevenSigns = true;
  static __device__ uint2 grid_row(std::uint32_t index) {
    return row_of_8(kIq2XxsRows.rows[index]);
  }

  static __device__ GridWords read(const RowWords& words, int s) {
    const std::uint32_t rest = words.at(2 * s + 1);
    const float scale = half_step_scale(words.d(), rest >> 28, 0.25F);
    return {{words.at(2 * s), 0}, 0, rest, {scale, scale}};
  }
};

// Of IQ2_XS and IQ2_S: a byte with two scales per 32 columns, four of them in `word`.
__device__ inline GridWords with_nibble_scales(GridWords block,
                                               float d,
                                               std::uint32_t word,
                                               int s) {
  const std::uint32_t nibbles = word >> (s % 4 * 8);
  block.scales[0] = half_step_scale(d, nibbles & 15, 0.25F);
  block.scales[1] = half_step_scale(d, nibbles >> 4 & 15, 0.25F);
  return block;
}

template <>
struct GridPanel<DType::IQ2_XS> {
  static constexpr int kStride = 1;
  static constexpr std::uint32_t kHighMask = 1;
  static constexpr bool kSevenSigns = true;
  static __device__ uint2 grid_row(std::uint32_t index) { return row_of_8(kIq2XsRows.rows[index]); }

  static __device__ GridWords read(const RowWords& words, int s) {
    const std::uint32_t rest = words.at(2 * s + 1);
    return with_nibble_scales({{words.at(2 * s), 0}, rest >> 28, rest, {0, 0}}, words.d(),
                              words.at(16 + s / 4), s);
  }
};

template <>
struct GridPanel<DType::IQ2_S> {
  static constexpr int kStride = 2;
  static constexpr std::uint32_t kHighMask = 3;
  static constexpr bool kSevenSigns = false;
  static __device__ uint2 grid_row(std::uint32_t index) { return row_of_8(kIq2SRows.rows[index]); }

  static __device__ GridWords read(const RowWords& words, int s) {
    const std::uint32_t high = words.at(16 + s / 4) >> (s % 4 * 8);
    return with_nibble_scales({{words.at(s), 0}, high, words.at(8 + s), {0, 0}}, words.d(),
                              words.at(18 + s / 4), s);
  }
};

template <>
struct GridPanel<DType::IQ3_XXS> {
  static constexpr std::uint32_t kHighMask = 0;
  static constexpr bool kSevenSigns = true;
  static __device__ uint2 grid_rows(std::uint32_t first, std::uint32_t second) {
    return rows_of_4(kIq3XxsRows.rows[first], kIq3XxsRows.rows[second]);
  }

  static __device__ GridWords read(const RowWords& words, int s) {
    const std::uint32_t rest = words.at(16 + s);
    const float scale = half_step_scale(words.d(), rest >> 28, 0.5F);
    return {{words.at(2 * s), words.at(2 * s + 1)}, 0, rest, {scale, scale}};
  }
};

template <>
struct GridPanel<DType::IQ3_S> {
  static constexpr std::uint32_t kHighMask = 1;
  static constexpr bool kSevenSigns = false;
  static __device__ uint2 grid_rows(std::uint32_t first, std::uint32_t second) {
    return rows_of_4(kIq3SRows.rows[first], kIq3SRows.rows[second]);
  }

  static __device__ GridWords read(const RowWords& words, int s) {
    const auto scale_q = static_cast<int>(words.at(26) >> (4 * s) & 15);
    const float scale = multiply(words.d(), static_cast<float>(1 + 2 * scale_q));
    const std::uint32_t high = words.at(16 + s / 4) >> (s % 4 * 8);
    return {{words.at(2 * s), words.at(2 * s + 1)}, high, words.at(18 + s), {scale, scale}};
  }
};

__device__ inline float iq1_scale(float d, std::uint32_t scale) {
  return multiply(d, static_cast<float>(2 * (scale & 7) + 1));
}

template <>
struct GridPanel<DType::IQ1_S> {
  static constexpr int kStride = 3;
  static constexpr std::uint32_t kHighMask = 7;

  static __device__ GridWords read(const RowWords& words, int s) {
    const std::uint32_t high = words.at(8 + s / 2) >> (s % 2 * 16);
    const float scale = iq1_scale(words.d(), high >> 12);
    return {{words.at(s), 0}, high, (high >> 15 & 1) * 15, {scale, scale}};
  }
};

template <>
struct GridPanel<DType::IQ1_M> {
  static constexpr int kStride = 4;
  static constexpr std::uint32_t kHighMask = 7;

  static __device__ GridWords read(const RowWords& words, int s) {
    const std::uint32_t low = words.at(12);
    const std::uint32_t upper = words.at(13);
    const float d = f16_to_float((low >> 12 & 0xf) | (low >> 24 & 0xf0) | (upper >> 4 & 0xf00) |
                                 (upper >> 16 & 0xf000));
    const std::uint32_t high = words.at(8 + s / 2) >> (s % 2 * 16);
    const std::uint32_t scales = (s < 4 ? low : upper) >> (s / 2 % 2 * 16 + s % 2 * 6);
    const std::uint32_t deltas =
        (high >> 3 & 1) | (high >> 6 & 2) | (high >> 9 & 4) | (high >> 12 & 8);
    return {{words.at(s), 0}, high, deltas, {iq1_scale(d, scales), iq1_scale(d, scales >> 3)}};
  }
};

template <DType kType>
class PanelWords {
 public:
  __device__ PanelWords(const std::uint8_t* chunk, int block, int row)
      : block_(Panel::read({chunk, chunk + Layout::kHeaderBytes, row}, block)) {}

  // Columns [8 run, 8 run + 8).
  __device__ void decode(int run, float (&out)[kRun]) const {
    const float scale = block_.scales[run * kRun / Layout::kFormat.group];
    if constexpr (kType == DType::IQ1_S || kType == DType::IQ1_M) {
      write_shifted(index_of_8(run), (block_.signs >> run & 1) != 0, scale, out);
    } else if constexpr (kType == DType::IQ3_XXS || kType == DType::IQ3_S) {
      const uint2 rows = Panel::grid_rows(index_of_4(2 * run), index_of_4(2 * run + 1));
      write_signed(rows, signs(run), scale, out);
    } else {
      write_signed(Panel::grid_row(index_of_8(run)), signs(run), scale, out);
    }
  }

 private:
  using Layout = PanelLayout<kType>;
  using Panel = GridPanel<kType>;

  __device__ std::uint32_t index_of_8(int k) const {
    return (block_.rows[0] >> (8 * k) & 255) |
           (block_.high >> (Panel::kStride * k) & Panel::kHighMask) << 8;
  }
  __device__ std::uint32_t index_of_4(int k) const {
    return (block_.rows[k / 4] >> (k % 4 * 8) & 255) | (block_.high >> k & Panel::kHighMask) << 8;
  }
  __device__ unsigned signs(int run) const {
    if constexpr (Panel::kSevenSigns) return even_signs(block_.signs >> (7 * run) & 127);
    return block_.signs >> (8 * run) & 255;
  }

  GridWords block_;
};

// Word w of a chunk (columns 4 w .. 4 w + 3) is trit k of a word of four bytes.
template <>
class PanelWords<DType::TQ1_0> {
 public:
  __device__ PanelWords(const std::uint8_t* chunk, int block, int row) {
    const RowWords words = {chunk, chunk + PanelLayout<DType::TQ1_0>::kHeaderBytes, row};
    d_ = words.d();
    GRAFT_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int w = 8 * block + i;
      const int k = w < 40 ? w / 8 : w < 60 ? (w - 40) / 4 : w - 60;
      const int line = w < 40 ? w % 8 : w < 60 ? 8 + w % 4 : 12;
      trits_[i] = trits(words.at(line), k);
    }
  }

  // Columns [8 run, 8 run + 8).
  __device__ void decode(int run, float (&out)[kRun]) const {
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i) {
      const auto trit = static_cast<int>(trits_[2 * run + i / 4] >> (i % 4 * 8) & 3);
      out[i] = multiply(static_cast<float>(trit - 1), d_);
    }
  }

 private:
  // Trit k of four bytes: the integer part of 3 (byte 3^k mod 256) / 256.
  static __device__ std::uint32_t trits(std::uint32_t bytes, int k) {
    const std::uint32_t power =
        ((k & 1) != 0 ? 3U : 1U) * ((k & 2) != 0 ? 9U : 1U) * ((k & 4) != 0 ? 81U : 1U);
    std::uint32_t result = 0;
    GRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t rest = (bytes >> (8 * i) & 255) * power & 255;
      result |= rest * 3 >> 8 << (8 * i);
    }
    return result;
  }

  std::uint32_t trits_[8];
  float d_;
};

}  // namespace graft::kernels::cuda
