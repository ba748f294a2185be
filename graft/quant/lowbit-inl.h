// Decoders of the ternary and binary types TQ1_0 TQ2_0 Q1_0 Q2_0. No encoders: models that use them
// are trained for them. See simd-inl.h for the rules of these files.

namespace {

// Decodes trit k of kCount bytes, each a fixed-point fraction in base 3.
template <int kCount>
GRAFT_INLINE void write_trits(const std::uint8_t* quants, int k, float d, float* out) {
  constexpr std::uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  for (int i = 0; i < kCount; ++i) {
    const auto rest = static_cast<std::uint8_t>(quants[i] * kPowers[k]);
    out[i] = static_cast<float>((rest * 3 >> 8) - 1) * d;
  }
}

void decode_tq1_0(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b, out += 256) {
    const quant::BlockTQ10& block = blocks<quant::BlockTQ10>(in)[b];
    const float d = from_f16(block.d);
    for (int k = 0; k < 5; ++k)
      write_trits<32>(block.quants, k, d, out + 32 * k);
    for (int k = 0; k < 5; ++k)
      write_trits<16>(block.quants + 32, k, d, out + 160 + 16 * k);
    for (int k = 0; k < 4; ++k)
      write_trits<4>(block.high, k, d, out + 240 + 4 * k);
  }
}

void decode_tq2_0(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockTQ20& block = blocks<quant::BlockTQ20>(in)[b];
    const float d = from_f16(block.d);
    for (int s = 0; s < 8; ++s, out += 32) {
      for (int i = 0; i < 32; i += kLanes) {
        const U8x16 quants = load_bytes(block.quants + s / 4 * 32 + i);
        store(out + i, (from_bytes(bits_at(quants, s % 4 * 2, 3)) - 1.0F) * d);
      }
    }
  }
}

void decode_q1_0(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 128; ++b, out += 128) {
    const quant::BlockQ10& block = blocks<quant::BlockQ10>(in)[b];
    const std::uint32_t d = as_bits(from_f16(block.d));
    for (int byte = 0; byte < 16; ++byte) {
      const std::uint32_t minus = ~static_cast<std::uint32_t>(block.quants[byte]);
      for (int i = 0; i < 8; ++i)
        out[8 * byte + i] = as_float(d ^ (minus >> i & 1) << 31);
    }
  }
}

void decode_q2_0(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 64; ++b, out += 64) {
    const quant::BlockQ20& block = blocks<quant::BlockQ20>(in)[b];
    const float d = from_f16(block.d);
    std::uint8_t q[64];
    for (int i = 0; i < 16; ++i) {
      // Spread the four 2-bit codes of a byte over the four bytes of a word.
      const std::uint32_t byte = block.quants[i];
      const std::uint32_t word = (byte | byte << 6 | byte << 12 | byte << 18) & 0x03030303U;
      __builtin_memcpy(q + 4 * i, &word, sizeof(word));
    }
    for (int i = 0; i < 64; i += kLanes)
      store(out + i, (from_bytes(load_bytes(q + i)) - 1.0F) * d);
  }
}

}  // namespace
