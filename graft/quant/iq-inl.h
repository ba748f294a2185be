// Decoders of the grid types IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S; no encoders.
// See simd-inl.h for the rules of these files, blocks.h for the layouts.

namespace {

// Eight sign bits from seven stored ones: the eighth makes the parity even.
GRAFT_INLINE unsigned even_signs(unsigned seven) {
  const unsigned fold = seven ^ seven >> 4;
  return seven | (0x6996U >> (fold & 15) & 1) << 7;
}

// out[i] = scale * grid[i], negated where sign bit i is set.
template <int kCount>
GRAFT_INLINE void write_signed(const std::int8_t* grid, unsigned signs, float scale, float* out) {
  for (int i = 0; i < kCount; ++i) {
    const float value = scale * static_cast<float>(grid[i]);
    out[i] = as_float(as_bits(value) ^ (signs >> i & 1) << 31);
  }
}

void decode_iq2_xxs(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockIQ2XXS& block = blocks<quant::BlockIQ2XXS>(in)[b];
    const float d = from_f16(block.d);
    for (int s = 0; s < 8; ++s) {
      const std::uint32_t rows = block.quants[s][0];
      const std::uint32_t signs = block.quants[s][1];
      const float scale = d * (0.5F + static_cast<float>(signs >> 28)) * 0.25F;
      for (int k = 0; k < 4; ++k, out += 8) {
        const unsigned eight = even_signs(signs >> (7 * k) & 127);
        write_signed<8>(quant::kIq2XxsGrid.rows[rows >> (8 * k) & 255], eight, scale, out);
      }
    }
  }
}

void decode_iq2_xs(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockIQ2XS& block = blocks<quant::BlockIQ2XS>(in)[b];
    const float d = from_f16(block.d);
    for (int k = 0; k < 32; ++k, out += 8) {
      const int scale_q = block.scales[k / 4] >> (k % 4 / 2 * 4) & 15;
      const float scale = d * (0.5F + static_cast<float>(scale_q)) * 0.25F;
      const unsigned word = block.quants[k];
      write_signed<8>(quant::kIq2XsGrid.rows[word & 511], even_signs(word >> 9), scale, out);
    }
  }
}

void decode_iq2_s(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockIQ2S& block = blocks<quant::BlockIQ2S>(in)[b];
    const float d = from_f16(block.d);
    for (int k = 0; k < 32; ++k, out += 8) {
      const int scale_q = block.scales[k / 4] >> (k % 4 / 2 * 4) & 15;
      const float scale = d * (0.5F + static_cast<float>(scale_q)) * 0.25F;
      const unsigned row = block.quants[k] | (block.high[k / 4] >> (k % 4 * 2) & 3U) << 8;
      write_signed<8>(quant::kIq2SGrid.rows[row], block.signs[k], scale, out);
    }
  }
}

void decode_iq3_xxs(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockIQ3XXS& block = blocks<quant::BlockIQ3XXS>(in)[b];
    const float d = from_f16(block.d);
    for (int k = 0; k < 32; ++k, out += 8) {
      const std::uint32_t word = block.signs[k / 4];
      const float scale = d * (0.5F + static_cast<float>(word >> 28)) * 0.5F;
      const unsigned signs = even_signs(word >> (k % 4 * 7) & 127);
      write_signed<4>(quant::kIq3XxsGrid.rows[block.quants[2 * k]], signs, scale, out);
      write_signed<4>(quant::kIq3XxsGrid.rows[block.quants[2 * k + 1]], signs >> 4, scale, out + 4);
    }
  }
}

void decode_iq3_s(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockIQ3S& block = blocks<quant::BlockIQ3S>(in)[b];
    const float d = from_f16(block.d);
    for (int k = 0; k < 32; ++k, out += 8) {
      const int scale_q = block.scales[k / 8] >> (k % 8 / 4 * 4) & 15;
      const float scale = d * static_cast<float>(1 + 2 * scale_q);
      const unsigned high = block.high[k / 4] >> (k % 4 * 2) & 3U;
      const unsigned first = block.quants[2 * k] | (high & 1) << 8;
      const unsigned second = block.quants[2 * k + 1] | (high >> 1) << 8;
      write_signed<4>(quant::kIq3SGrid.rows[first], block.signs[k], scale, out);
      write_signed<4>(quant::kIq3SGrid.rows[second], block.signs[k] >> 4U, scale, out + 4);
    }
  }
}

// IQ1: the grid values -1, 0, 1 plus or minus an eighth.
GRAFT_INLINE void write_shifted(unsigned row, bool down, float scale, float* out) {
  const float delta = down ? -0.125F : 0.125F;
  for (int i = 0; i < 8; ++i) {
    out[i] = scale * (static_cast<float>(quant::kIq1Grid.rows[row][i]) + delta);
  }
}

void decode_iq1_s(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockIQ1S& block = blocks<quant::BlockIQ1S>(in)[b];
    const float d = from_f16(block.d);
    for (int k = 0; k < 32; ++k, out += 8) {
      const unsigned word = block.high[k / 4];
      const float scale = d * static_cast<float>(2 * (word >> 12 & 7) + 1);
      const unsigned row = block.quants[k] | (word >> (k % 4 * 3) & 7) << 8;
      write_shifted(row, word >> 15 != 0, scale, out);
    }
  }
}

void decode_iq1_m(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockIQ1M& block = blocks<quant::BlockIQ1M>(in)[b];
    unsigned d_bits = 0;
    for (int i = 0; i < 4; ++i)
      d_bits |= static_cast<unsigned>(block.scales[i] >> 12) << (4 * i);
    const float d = from_f16(d_bits);
    for (int k = 0; k < 32; ++k, out += 8) {
      const unsigned scale_q = block.scales[k / 8] >> (k % 8 / 2 * 3) & 7U;
      const float scale = d * static_cast<float>(2 * scale_q + 1);
      const unsigned nibble = block.high[k / 2] >> (k % 2 * 4) & 15U;
      write_shifted(block.quants[k] | (nibble & 7) << 8, nibble >> 3 != 0, scale, out);
    }
  }
}

}  // namespace
