// IQ formats with codebook grids: a run of 8 values is one grid row of 8, or two rows of 4. The
// layouts are in graft/quant/blocks.h; decode() is described in formats_legacy.cuh.

#pragma once

#include "graft/kernels/cuda/formats/formats_legacy.cuh"
#include "graft/quant/iq_grids.h"

namespace graft::kernels::cuda {

// Device copies of the grids, aligned so that a row is one load.
static __device__ __align__(16) const quant::Grid<2048, 8> kIq1Rows = quant::kIq1Grid;
static __device__ __align__(16) const quant::Grid<256, 8> kIq2XxsRows = quant::kIq2XxsGrid;
static __device__ __align__(16) const quant::Grid<512, 8> kIq2XsRows = quant::kIq2XsGrid;
static __device__ __align__(16) const quant::Grid<1024, 8> kIq2SRows = quant::kIq2SGrid;
static __device__ __align__(16) const quant::Grid<256, 4> kIq3XxsRows = quant::kIq3XxsGrid;
static __device__ __align__(16) const quant::Grid<512, 4> kIq3SRows = quant::kIq3SGrid;

__device__ inline uint2 row_of_8(const std::int8_t (&row)[8]) {
  return *reinterpret_cast<const uint2*>(row);
}

__device__ inline uint2 rows_of_4(const std::int8_t (&first)[4], const std::int8_t (&second)[4]) {
  return make_uint2(*reinterpret_cast<const std::uint32_t*>(first),
                    *reinterpret_cast<const std::uint32_t*>(second));
}

// Eight sign bits from seven: the eighth makes the number of ones even.
__device__ inline unsigned even_signs(unsigned seven) {
  const unsigned fold = seven ^ seven >> 4;
  return seven | (0x6996U >> (fold & 15) & 1) << 7;
}

__device__ inline void write_signed(uint2 row, unsigned signs, float scale, float (&out)[kRun]) {
  GRAFT_UNROLL
  for (int i = 0; i < kRun; ++i) {
    const float value = multiply(scale, static_cast<float>(signed_byte_of(row, i)));
    out[i] = __uint_as_float(__float_as_uint(value) ^ (signs >> i & 1) << 31);
  }
}

// d * (scale + 1/2) * power, power being a power of two.
__device__ inline float half_step_scale(float d, unsigned scale, float power) {
  return multiply(multiply(d, 0.5F + static_cast<float>(scale)), power);
}

struct FormatIq2Xxs : BlockFormat<DType::IQ2_XXS> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const std::uint8_t* words = block + 2 + run / 4 * 8;
    const std::uint32_t signs = load_u32(words + 4);
    const float scale = half_step_scale(load_f16(block), signs >> 28, 0.25F);
    const unsigned eight = even_signs(signs >> (7 * (run % 4)) & 127);
    write_signed(row_of_8(kIq2XxsRows.rows[words[run % 4]]), eight, scale, out);
  }
};

struct FormatIq2Xs : BlockFormat<DType::IQ2_XS> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const unsigned scale_q = block[66 + run / 4] >> (run % 4 / 2 * 4) & 15U;
    const float scale = half_step_scale(load_f16(block), scale_q, 0.25F);
    const unsigned word = load_u16(block + 2 + 2 * run);
    write_signed(row_of_8(kIq2XsRows.rows[word & 511]), even_signs(word >> 9), scale, out);
  }
};

struct FormatIq2S : BlockFormat<DType::IQ2_S> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const unsigned scale_q = block[74 + run / 4] >> (run % 4 / 2 * 4) & 15U;
    const float scale = half_step_scale(load_f16(block), scale_q, 0.25F);
    const unsigned row = block[2 + run] | (block[66 + run / 4] >> (run % 4 * 2) & 3U) << 8;
    write_signed(row_of_8(kIq2SRows.rows[row]), block[34 + run], scale, out);
  }
};

struct FormatIq3Xxs : BlockFormat<DType::IQ3_XXS> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const std::uint32_t word = load_u32(block + 66 + run / 4 * 4);
    const float scale = half_step_scale(load_f16(block), word >> 28, 0.5F);
    const unsigned signs = even_signs(word >> (run % 4 * 7) & 127);
    const std::uint8_t* quants = block + 2 + 2 * run;
    const uint2 row = rows_of_4(kIq3XxsRows.rows[quants[0]], kIq3XxsRows.rows[quants[1]]);
    write_signed(row, signs, scale, out);
  }
};

struct FormatIq3S : BlockFormat<DType::IQ3_S> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const int scale_q = block[106 + run / 8] >> (run % 8 / 4 * 4) & 15;
    const float scale = multiply(load_f16(block), static_cast<float>(1 + 2 * scale_q));
    const unsigned high = block[66 + run / 4] >> (run % 4 * 2) & 3U;
    const unsigned first = block[2 + 2 * run] | (high & 1) << 8;
    const unsigned second = block[3 + 2 * run] | (high >> 1) << 8;
    const uint2 row = rows_of_4(kIq3SRows.rows[first], kIq3SRows.rows[second]);
    write_signed(row, block[74 + run], scale, out);
  }
};

// IQ1 shifts a grid row of -1, 0, 1 by ±1/8.
__device__ inline void write_shifted(unsigned row, bool down, float scale, float (&out)[kRun]) {
  const float delta = down ? -0.125F : 0.125F;
  const uint2 values = row_of_8(kIq1Rows.rows[row]);
  GRAFT_UNROLL
  for (int i = 0; i < kRun; ++i)
    out[i] = multiply(scale, static_cast<float>(signed_byte_of(values, i)) + delta);
}

struct FormatIq1S : BlockFormat<DType::IQ1_S> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    const unsigned word = load_u16(block + 34 + run / 4 * 2);
    const float scale = multiply(load_f16(block), static_cast<float>(2 * (word >> 12 & 7) + 1));
    const unsigned row = block[2 + run] | (word >> (run % 4 * 3) & 7) << 8;
    write_shifted(row, word >> 15 != 0, scale, out);
  }
};

struct FormatIq1M : BlockFormat<DType::IQ1_M> {
  static __device__ void decode(const std::uint8_t* block, int run, float (&out)[kRun]) {
    unsigned d_bits = 0;
    GRAFT_UNROLL
    for (int i = 0; i < 4; ++i)
      d_bits |= (load_u16(block + 48 + 2 * i) >> 12) << (4 * i);
    const unsigned scale_q = load_u16(block + 48 + run / 8 * 2) >> (run % 8 / 2 * 3) & 7;
    const float scale = multiply(f16_to_float(d_bits), static_cast<float>(2 * scale_q + 1));
    const unsigned nibble = block[32 + run / 2] >> (run % 2 * 4) & 15U;
    write_shifted(block[run] | (nibble & 7) << 8, nibble >> 3 != 0, scale, out);
  }
};

}  // namespace graft::kernels::cuda
