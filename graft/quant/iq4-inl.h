// IQ4_NL and IQ4_XS: 4-bit codes of sixteen non-uniform points.
// See simd-inl.h for the rules of these files and the treatment of NaN and infinity.

namespace {

struct Iq4Weights {
  static constexpr float kSigma = 1.0F;
  static constexpr float kLinear = 1.0F;
  static constexpr float kSquare = 0.0F;
};

// Rounding to kIq4Values.
struct Iq4Points {
  // Above this value point k + 1 is nearer than point k.
  static constexpr float threshold(int k) {
    return 0.5F * static_cast<float>(quant::kIq4Values[k] + quant::kIq4Values[k + 1]);
  }

  static GRAFT_INLINE F32x16 nearest(F32x16 t) {
    F32x16 q = static_cast<float>(quant::kIq4Values[0]);
    for (int k = 0; k < 15; ++k) {
      q = select(t > threshold(k), static_cast<float>(quant::kIq4Values[k + 1]), q);
    }
    return q;
  }

  static GRAFT_INLINE F32x16 index(F32x16 t) {
    F32x16 q = 0.0F;
    for (int k = 0; k < 15; ++k)
      q += select(t > threshold(k), 1.0F, 0.0F);
    return q;
  }
};

GRAFT_INLINE void write_iq4(const std::uint8_t* quants, float scale, float* out) {
  const U8x16 q = load_bytes(quants);
  store(out, scale * from_signed_bytes(look_up(quant::kIq4Values, bits_at(q, 0, 15))));
  store(out + 16, scale * from_signed_bytes(look_up(quant::kIq4Values, bits_at(q, 4, 15))));
}

void decode_iq4_nl(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, out += 32) {
    const quant::BlockIQ4NL& block = blocks<quant::BlockIQ4NL>(in)[b];
    write_iq4(block.quants, from_f16(block.d), out);
  }
}

void decode_iq4_xs(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockIQ4XS& block = blocks<quant::BlockIQ4XS>(in)[b];
    const float d = from_f16(block.d);
    for (int s = 0; s < 8; ++s, out += 32) {
      const int low = block.scales_low[s / 2] >> (s % 2 * 4) & 15;
      const int high = block.scales_high >> (2 * s) & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      write_iq4(block.quants + 16 * s, scale, out);
    }
  }
}

// The best float scale for 32 values. The points reach further below zero than above, so the
// extreme value is mapped to the lower end, -100 to -145.
GRAFT_INLINE float find_iq4_scale(const Values<32>& v) {
  if (v.is_zero()) return 0.0F;
  const F32x16 levels = lane_indices() * 3.0F + 100.0F;
  return best_scale<Iq4Points>(v, levels / -v.extreme(), {}).scale;
}

GRAFT_INLINE void write_iq4_quants(const Values<32>& v, float scale, std::uint8_t* quants) {
  const float inv = inverse(scale);
  const F32x16 low = Iq4Points::index(load(v.x) * inv);
  const F32x16 high = Iq4Points::index(load(v.x + 16) * inv);
  store_bytes(quants, low + 16.0F * high);
}

void encode_iq4_nl(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, in += 32) {
    quant::BlockIQ4NL& block = blocks<quant::BlockIQ4NL>(out)[b];
    Values<32> v;
    read_values<Iq4Weights>(in, v);
    block.d = scale_to_f16(find_iq4_scale(v));
    write_iq4_quants(v, from_f16(block.d), block.quants);
  }
}

void encode_iq4_xs(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b, in += 256) {
    quant::BlockIQ4XS& block = blocks<quant::BlockIQ4XS>(out)[b];
    Values<32> values[8];
    float scales[8];
    float largest = 0;
    for (int s = 0; s < 8; ++s) {
      read_values<Iq4Weights>(in + 32 * s, values[s]);
      scales[s] = find_iq4_scale(values[s]);
      const float size = scales[s] < 0 ? -scales[s] : scales[s];
      largest = size > (largest < 0 ? -largest : largest) ? scales[s] : largest;
    }
    block.d = scale_to_f16(largest / -32.0F);
    const float d = from_f16(block.d);
    const float inv_d = inverse(d);
    unsigned high = 0;
    unsigned low = 0;
    for (int s = 0; s < 8; ++s) {
      const float first = round_even(scales[s] * inv_d);
      const float scale_q = refine_multiple<Iq4Points>(values[s], d, first, -32, 31);
      const auto code = static_cast<unsigned>(static_cast<int>(scale_q) + 32);
      low |= (code & 15) << (4 * s);
      high |= (code >> 4) << (2 * s);
      write_iq4_quants(values[s], d * scale_q, block.quants + 16 * s);
    }
    block.scales_high = static_cast<std::uint16_t>(high);
    __builtin_memcpy(block.scales_low, &low, sizeof(block.scales_low));
  }
}

}  // namespace
