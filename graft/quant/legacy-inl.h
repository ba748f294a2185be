// Blocks of 32 values with one f16 scale: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q8_1.
// See simd-inl.h for the rules of these files and the treatment of NaN and infinity.

namespace {

struct LegacyWeights {
  static constexpr float kSigma = 1.0F;
  static constexpr float kLinear = 1.0F;
  static constexpr float kSquare = 0.0F;
};

// The low 16 bits of `high` as bytes: byte i is 16 when bit i is set, else 0.
GRAFT_INLINE U8x16 fifth_bits(std::uint32_t high) {
  // The product repeats eight bits in every byte; the mask keeps bit k in byte k.
  constexpr std::uint64_t kRepeat = 0x0101010101010101U;
  constexpr std::uint64_t kOwnBit = 0x8040201008040201U;
  const U64x2 each = {(high & 255) * kRepeat & kOwnBit, (high >> 8 & 255) * kRepeat & kOwnBit};
  return reinterpret_cast<U8x16>(reinterpret_cast<U8x16>(each) != 0) & 16;
}

void decode_q4_0(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, out += 32) {
    const quant::BlockQ40& block = blocks<quant::BlockQ40>(in)[b];
    const float d = from_f16(block.d);
    const U8x16 q = load_bytes(block.quants);
    store(out, (from_bytes(bits_at(q, 0, 15)) - 8.0F) * d);
    store(out + 16, (from_bytes(bits_at(q, 4, 15)) - 8.0F) * d);
  }
}

void decode_q4_1(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, out += 32) {
    const quant::BlockQ41& block = blocks<quant::BlockQ41>(in)[b];
    const float d = from_f16(block.d);
    const float m = from_f16(block.m);
    const U8x16 q = load_bytes(block.quants);
    store(out, from_bytes(bits_at(q, 0, 15)) * d + m);
    store(out + 16, from_bytes(bits_at(q, 4, 15)) * d + m);
  }
}

void decode_q5_0(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, out += 32) {
    const quant::BlockQ50& block = blocks<quant::BlockQ50>(in)[b];
    const float d = from_f16(block.d);
    const U8x16 q = load_bytes(block.quants);
    const std::uint32_t high = block.high;
    store(out, (from_bytes(bits_at(q, 0, 15) | fifth_bits(high)) - 16.0F) * d);
    store(out + 16, (from_bytes(bits_at(q, 4, 15) | fifth_bits(high >> 16)) - 16.0F) * d);
  }
}

void decode_q5_1(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, out += 32) {
    const quant::BlockQ51& block = blocks<quant::BlockQ51>(in)[b];
    const float d = from_f16(block.d);
    const float m = from_f16(block.m);
    const U8x16 q = load_bytes(block.quants);
    const std::uint32_t high = block.high;
    store(out, from_bytes(bits_at(q, 0, 15) | fifth_bits(high)) * d + m);
    store(out + 16, from_bytes(bits_at(q, 4, 15) | fifth_bits(high >> 16)) * d + m);
  }
}

template <class Block>
void decode_q8(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, out += 32) {
    const Block& block = blocks<Block>(in)[b];
    const float d = from_f16(block.d);
    store(out, from_signed_bytes(load_bytes(block.quants)) * d);
    store(out + 16, from_signed_bytes(load_bytes(block.quants + 16)) * d);
  }
}

// With eight bits max-abs scaling is enough: a scale search lowers the error by less than 1 %.
GRAFT_INLINE quant::F16Bits quantize_q8(const float* in, std::int8_t* quants) {
  const F32x16 x0 = load_finite(in);
  const F32x16 x1 = load_finite(in + 16);
  const quant::F16Bits d = scale_to_f16(max_lane(vmax(vabs(x0), vabs(x1))) / 127.0F);
  const float inv = inverse(from_f16(d));
  float q[32];
  store(q, round_even(clamp(x0 * inv, -127, 127)));
  store(q + 16, round_even(clamp(x1 * inv, -127, 127)));
  for (int i = 0; i < 32; ++i)
    quants[i] = static_cast<std::int8_t>(q[i]);
  return d;
}

void encode_q8_0(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, in += 32) {
    quant::BlockQ80& block = blocks<quant::BlockQ80>(out)[b];
    block.d = quantize_q8(in, block.quants);
  }
}

void encode_q8_1(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, in += 32) {
    quant::BlockQ81& block = blocks<quant::BlockQ81>(out)[b];
    block.d = quantize_q8(in, block.quants);
    int total = 0;
    for (int i = 0; i < 32; ++i)
      total += block.quants[i];
    block.s = scale_to_f16(static_cast<float>(total) * from_f16(block.d));
  }
}

// Writes codes 0..2 kHalf - 1 with x = (code - kHalf) d; returns d.
template <int kHalf>
GRAFT_INLINE quant::F16Bits quantize_symmetric(const float* in, std::uint8_t* codes) {
  using Points = IntegerPoints<-kHalf, kHalf - 1>;
  Values<32> v;
  read_values<LegacyWeights>(in, v);
  quant::F16Bits d = 0;
  if (!v.is_zero()) {
    // Candidates map the extreme value to 7/8 ... 5/4 of the half range, on either side.
    const F32x16 levels = lane_indices() * (kHalf / 40.0F) + (kHalf * 0.875F);
    Candidate best = best_scale<Points>(v, levels / -v.extreme(), {});
    best = best_scale<Points>(v, levels / v.extreme(), best);
    d = scale_to_f16(best.scale);
  }
  const float inv = inverse(from_f16(d));
  for (int i = 0; i < 32; i += kLanes) {
    store_bytes(codes + i, Points::nearest(load(v.x + i) * inv) + float{kHalf});
  }
  return d;
}

struct ScaleAndMinBits {
  quant::F16Bits d = 0;
  quant::F16Bits m = 0;
};

// Writes codes 0..kHigh with x = code d + m.
template <int kHigh>
GRAFT_INLINE ScaleAndMinBits quantize_with_min(const float* in, std::uint8_t* codes) {
  Values<32> v;
  read_values<LegacyWeights>(in, v);
  ScaleAndMinBits bits{0, scale_to_f16(v.low)};
  const float range = v.high - v.low;
  if (range >= kSmallest) {
    const float base = v.low;
    sum_values(v, base);
    // Lane c shortens the range at the lower end by c % 4 and at the upper end by c / 4 steps.
    constexpr float kStep = 0.25F;
    const F32x16 below = lane_columns() * kStep - kStep;
    const F32x16 above = lane_rows() * kStep - kStep;
    const F32x16 inverses = (static_cast<float>(kHigh) + below + above) / range;
    const ScaleAndMin fit = best_scale_and_min<kHigh, false>(v, inverses, below / inverses);
    bits = {scale_to_f16(fit.scale), scale_to_f16(fit.min + base)};
  }
  const float inv = inverse(from_f16(bits.d));
  const float m = from_f16(bits.m);
  for (int i = 0; i < 32; i += kLanes) {
    store_bytes(codes + i, IntegerPoints<0, kHigh>::nearest((load_finite(in + i) - m) * inv));
  }
  return bits;
}

GRAFT_INLINE void pack_nibbles(const std::uint8_t* codes, std::uint8_t* quants) {
  for (int i = 0; i < 16; ++i) {
    quants[i] = static_cast<std::uint8_t>((codes[i] & 15) | codes[i + 16] << 4);
  }
}

GRAFT_INLINE std::uint32_t pack_fifth_bits(const std::uint8_t* codes) {
  std::uint32_t high = 0;
  for (int i = 0; i < 32; ++i)
    high |= static_cast<std::uint32_t>(codes[i] >> 4 & 1) << i;
  return high;
}

void encode_q4_0(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, in += 32) {
    quant::BlockQ40& block = blocks<quant::BlockQ40>(out)[b];
    std::uint8_t codes[32];
    block.d = quantize_symmetric<8>(in, codes);
    pack_nibbles(codes, block.quants);
  }
}

void encode_q4_1(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, in += 32) {
    quant::BlockQ41& block = blocks<quant::BlockQ41>(out)[b];
    std::uint8_t codes[32];
    const ScaleAndMinBits bits = quantize_with_min<15>(in, codes);
    block.d = bits.d;
    block.m = bits.m;
    pack_nibbles(codes, block.quants);
  }
}

void encode_q5_0(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, in += 32) {
    quant::BlockQ50& block = blocks<quant::BlockQ50>(out)[b];
    std::uint8_t codes[32];
    block.d = quantize_symmetric<16>(in, codes);
    block.high = pack_fifth_bits(codes);
    pack_nibbles(codes, block.quants);
  }
}

void encode_q5_1(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, in += 32) {
    quant::BlockQ51& block = blocks<quant::BlockQ51>(out)[b];
    std::uint8_t codes[32];
    const ScaleAndMinBits bits = quantize_with_min<31>(in, codes);
    block.d = bits.d;
    block.m = bits.m;
    block.high = pack_fifth_bits(codes);
    pack_nibbles(codes, block.quants);
  }
}

}  // namespace
