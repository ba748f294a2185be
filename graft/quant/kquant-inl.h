// The k-quants Q2_K Q3_K Q4_K Q5_K Q6_K, blocks of 256 values in sub-blocks whose scales are
// integer multiples of one f16 scale, and Q8_K. See simd-inl.h for the rules of these files and the
// treatment of NaN and infinity.

namespace {

struct KQuantWeights {
  static constexpr float kSigma = 1.0F;
  static constexpr float kLinear = 1.0F;
  static constexpr float kSquare = 0.0F;
};

// Unpacks the 6-bit scales and minimums of the 8 sub-blocks of Q4_K and Q5_K.
GRAFT_INLINE void unpack_scales(const std::uint8_t* packed, int* scales, int* mins) {
  for (int s = 0; s < 4; ++s) {
    scales[s] = packed[s] & 63;
    mins[s] = packed[s + 4] & 63;
    scales[s + 4] = (packed[s + 8] & 15) | (packed[s] >> 6) << 4;
    mins[s + 4] = (packed[s + 8] >> 4) | (packed[s + 4] >> 6) << 4;
  }
}

GRAFT_INLINE void pack_scales(const std::uint8_t* scales,
                              const std::uint8_t* mins,
                              std::uint8_t* packed) {
  for (int s = 0; s < 4; ++s) {
    packed[s] = static_cast<std::uint8_t>(scales[s] | (scales[s + 4] >> 4) << 6);
    packed[s + 4] = static_cast<std::uint8_t>(mins[s] | (mins[s + 4] >> 4) << 6);
    packed[s + 8] = static_cast<std::uint8_t>((scales[s + 4] & 15) | (mins[s + 4] & 15) << 4);
  }
}

// Unpacks the sixteen 6-bit scales of Q3_K, 0..63.
GRAFT_INLINE void unpack_scales_q3(const std::uint8_t* packed, std::uint8_t* scales) {
  for (int s = 0; s < 16; ++s) {
    const int low = s < 8 ? packed[s] & 15 : packed[s - 8] >> 4;
    const int high = packed[8 + s % 4] >> (2 * (s / 4)) & 3;
    scales[s] = static_cast<std::uint8_t>(low | high << 4);
  }
}

GRAFT_INLINE void pack_scales_q3(const std::uint8_t* scales, std::uint8_t* packed) {
  for (int s = 0; s < 8; ++s) {
    packed[s] = static_cast<std::uint8_t>((scales[s] & 15) | (scales[s + 8] & 15) << 4);
  }
  for (int s = 0; s < 4; ++s) {
    packed[8 + s] =
        static_cast<std::uint8_t>(scales[s] >> 4 | (scales[s + 4] >> 4) << 2 |
                                  (scales[s + 8] >> 4) << 4 | (scales[s + 12] >> 4) << 6);
  }
}

void decode_q2_k(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockQ2K& block = blocks<quant::BlockQ2K>(in)[b];
    const float d = from_f16(block.d);
    const float dmin = from_f16(block.dmin);
    for (int s = 0; s < 16; ++s, out += 16) {
      const float scale = d * static_cast<float>(block.scales[s] & 15);
      const float min = dmin * static_cast<float>(block.scales[s] >> 4);
      const U8x16 quants = load_bytes(block.quants + s / 8 * 32 + s % 2 * 16);
      store(out, scale * from_bytes(bits_at(quants, s % 8 / 2 * 2, 3)) - min);
    }
  }
}

void decode_q3_k(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockQ3K& block = blocks<quant::BlockQ3K>(in)[b];
    const float d = from_f16(block.d);
    std::uint8_t scales[16];
    unpack_scales_q3(block.scales, scales);
    for (int s = 0; s < 16; ++s, out += 16) {
      const float scale = d * static_cast<float>(scales[s] - 32);
      const U8x16 quants = load_bytes(block.quants + s / 8 * 32 + s % 2 * 16);
      const U8x16 high = load_bytes(block.high + s % 2 * 16);
      const U8x16 q = bits_at(quants, s % 8 / 2 * 2, 3) | shift_left(bits_at(high, s / 2, 1), 2);
      store(out, scale * (from_bytes(q) - 4.0F));
    }
  }
}

void decode_q4_k(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockQ4K& block = blocks<quant::BlockQ4K>(in)[b];
    const float d = from_f16(block.d);
    const float dmin = from_f16(block.dmin);
    int scales[8];
    int mins[8];
    unpack_scales(block.scales, scales, mins);
    for (int s = 0; s < 8; ++s, out += 32) {
      const float scale = d * static_cast<float>(scales[s]);
      const float min = dmin * static_cast<float>(mins[s]);
      for (int i = 0; i < 32; i += kLanes) {
        const U8x16 quants = load_bytes(block.quants + s / 2 * 32 + i);
        store(out + i, scale * from_bytes(bits_at(quants, s % 2 * 4, 15)) - min);
      }
    }
  }
}

void decode_q5_k(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockQ5K& block = blocks<quant::BlockQ5K>(in)[b];
    const float d = from_f16(block.d);
    const float dmin = from_f16(block.dmin);
    int scales[8];
    int mins[8];
    unpack_scales(block.scales, scales, mins);
    for (int s = 0; s < 8; ++s, out += 32) {
      const float scale = d * static_cast<float>(scales[s]);
      const float min = dmin * static_cast<float>(mins[s]);
      for (int i = 0; i < 32; i += kLanes) {
        const U8x16 low = bits_at(load_bytes(block.quants + s / 2 * 32 + i), s % 2 * 4, 15);
        const U8x16 high = bits_at(load_bytes(block.high + i), s, 1);
        store(out + i, scale * from_bytes(low | shift_left(high, 4)) - min);
      }
    }
  }
}

void decode_q6_k(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b) {
    const quant::BlockQ6K& block = blocks<quant::BlockQ6K>(in)[b];
    const float d = from_f16(block.d);
    for (int s = 0; s < 16; ++s, out += 16) {
      const float scale = d * static_cast<float>(block.scales[s]);
      const U8x16 low = load_bytes(block.low + s / 8 * 64 + s % 4 * 16);
      const U8x16 high = load_bytes(block.high + s / 8 * 32 + s % 2 * 16);
      const U8x16 q =
          bits_at(low, s % 8 / 4 * 4, 15) | shift_left(bits_at(high, s % 8 / 2 * 2, 3), 4);
      store(out, scale * (from_bytes(q) - 32.0F));
    }
  }
}

void decode_q8_k(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b, out += 256) {
    const quant::BlockQ8K& block = blocks<quant::BlockQ8K>(in)[b];
    const float d = block.d;
    for (int i = 0; i < 256; ++i)
      out[i] = d * static_cast<float>(block.quants[i]);
  }
}

// Packs the low two bits of 256 codes in the layout of Q2_K, Q3_K and TQ2_0.
GRAFT_INLINE void pack_2_bits(const std::uint8_t* codes, std::uint8_t* quants) {
  for (int half = 0; half < 2; ++half, codes += 128, quants += 32) {
    for (int i = 0; i < 32; ++i) {
      quants[i] = static_cast<std::uint8_t>((codes[i] & 3) | (codes[i + 32] & 3) << 2 |
                                            (codes[i + 64] & 3) << 4 | (codes[i + 96] & 3) << 6);
    }
  }
}

GRAFT_INLINE void pack_nibbles_256(const std::uint8_t* codes, std::uint8_t* quants) {
  for (int pair = 0; pair < 4; ++pair, codes += 64, quants += 32) {
    for (int i = 0; i < 32; ++i) {
      quants[i] = static_cast<std::uint8_t>((codes[i] & 15) | codes[i + 32] << 4);
    }
  }
}

// A quantized block of the types with scale and minimum, before packing: x = d scale q - dmin min.
template <int kSubBlocks>
struct KQuantWithMin {
  quant::F16Bits d;
  quant::F16Bits dmin;
  std::uint8_t scales[kSubBlocks];
  std::uint8_t mins[kSubBlocks];
  std::uint8_t codes[256];
};

// Searches the integer multiples next to the fitted scale and minimum for the pair with the
// smallest error. Lane c tries scale + c % 3 - 1 and min + c / 3 - 2; lane 15 repeats lane 7.
template <int kHigh, int kScaleHigh, int kCount>
GRAFT_INLINE void refine_pair(
    const Values<kCount>& v, float d, float dmin, float& scale_q, float& min_q) {
  constexpr float kScaleSteps[kLanes] = {-1, 0, 1, -1, 0, 1, -1, 0, 1, -1, 0, 1, -1, 0, 1, 0};
  constexpr float kMinSteps[kLanes] = {-2, -2, -2, -1, -1, -1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 0};
  const F32x16 scale_qs = clamp(scale_q + load(kScaleSteps), 0, kScaleHigh);
  const F32x16 min_qs = clamp(min_q + load(kMinSteps), 0, kScaleHigh);
  const F32x16 scales = d * scale_qs;
  const F32x16 mins = dmin * min_qs;
  const F32x16 inverses = inverse(scales);
  const F32x16 shift = mins * inverses;
  F32x16 errors = 0.0F;
  for (int i = 0; i < kCount; ++i) {
    const F32x16 q = IntegerPoints<0, kHigh>::nearest(v.x[i] * inverses + shift);
    const F32x16 error = scales * q - (mins + v.x[i]);
    errors += v.weight[i] * (error * error);
  }
  float t[2][kLanes];
  store(t[0], scale_qs);
  store(t[1], min_qs);
  const int lane = argmin_lane(errors);
  scale_q = t[0][lane];
  min_q = t[1][lane];
}

template <int kHigh, int kScaleHigh, int kSubBlocks>
GRAFT_INLINE void quantize_k_with_min(const float* in, KQuantWithMin<kSubBlocks>& out) {
  constexpr int kCount = 256 / kSubBlocks;
  Values<kCount> values[kSubBlocks];
  float scales[kSubBlocks];
  float mins[kSubBlocks];
  float max_scale = 0;
  float max_min = 0;
  for (int s = 0; s < kSubBlocks; ++s) {
    Values<kCount>& v = values[s];
    read_values<KQuantWeights>(in + s * kCount, v);
    v.low = v.low < 0.0F ? v.low : 0.0F;
    ScaleAndMin fit{0, v.low};
    if (v.high - v.low >= kSmallest) {
      sum_values(v, 0.0F);
      // Lane c shortens the range at the lower end by c % 4 and at the upper end by c / 4 steps.
      constexpr float kStep = kHigh / 32.0F;
      const F32x16 below = lane_columns() * kStep - kStep;
      const F32x16 above = lane_rows() * kStep - kStep;
      const F32x16 inverses = (static_cast<float>(kHigh) + below + above) / (v.high - v.low);
      fit = best_scale_and_min<kHigh, true>(v, inverses, v.low + below / inverses);
    }
    scales[s] = fit.scale;
    mins[s] = -fit.min;
    max_scale = scales[s] > max_scale ? scales[s] : max_scale;
    max_min = mins[s] > max_min ? mins[s] : max_min;
  }
  out.d = scale_to_f16(max_scale / kScaleHigh);
  out.dmin = scale_to_f16(max_min / kScaleHigh);
  const float d = from_f16(out.d);
  const float dmin = from_f16(out.dmin);
  const float inv_d = inverse(d);
  const float inv_dmin = inverse(dmin);
  for (int s = 0; s < kSubBlocks; ++s) {
    const Values<kCount>& v = values[s];
    float scale_q = round_even(scales[s] * inv_d);
    float min_q = round_even(mins[s] * inv_dmin);
    refine_pair<kHigh, kScaleHigh>(v, d, dmin, scale_q, min_q);
    out.scales[s] = static_cast<std::uint8_t>(scale_q);
    out.mins[s] = static_cast<std::uint8_t>(min_q);
    const float inv = inverse(d * scale_q);
    const float min = dmin * min_q;
    for (int i = 0; i < kCount; i += kLanes) {
      store_bytes(out.codes + s * kCount + i,
                  IntegerPoints<0, kHigh>::nearest((load(v.x + i) + min) * inv));
    }
  }
}

// A quantized block of the symmetric types, before packing: x = d scale q with q in
// -kHalf..kHalf - 1 and scale in -kScaleHalf..kScaleHalf - 1.
struct KQuantSymmetric {
  quant::F16Bits d;
  std::int8_t scales[16];
  std::uint8_t codes[256];  // q + kHalf
};

template <int kHalf, int kScaleHalf>
GRAFT_INLINE void quantize_k_symmetric(const float* in, KQuantSymmetric& out) {
  using Points = IntegerPoints<-kHalf, kHalf - 1>;
  Values<16> values[16];
  float scales[16];
  float extreme_scale = 0;
  for (int s = 0; s < 16; ++s) {
    Values<16>& v = values[s];
    read_values<KQuantWeights>(in + s * 16, v);
    Candidate best{0, -1};
    if (!v.is_zero()) {
      const F32x16 levels = lane_indices() * (kHalf / 40.0F) + (kHalf * 0.875F);
      best = best_scale<Points>(v, levels / -v.extreme(), best);
    }
    scales[s] = best.scale;
    const float size = scales[s] < 0 ? -scales[s] : scales[s];
    extreme_scale =
        size > (extreme_scale < 0 ? -extreme_scale : extreme_scale) ? scales[s] : extreme_scale;
  }
  out.d = scale_to_f16(extreme_scale / -kScaleHalf);
  const float d = from_f16(out.d);
  const float inv_d = inverse(d);
  for (int s = 0; s < 16; ++s) {
    const Values<16>& v = values[s];
    const float scale_q =
        refine_multiple<Points>(v, d, round_even(scales[s] * inv_d), -kScaleHalf, kScaleHalf - 1);
    out.scales[s] = static_cast<std::int8_t>(scale_q);
    const float inv = inverse(d * scale_q);
    store_bytes(out.codes + s * 16, Points::nearest(load(v.x) * inv) + float{kHalf});
  }
}

void encode_q2_k(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b, in += 256) {
    quant::BlockQ2K& block = blocks<quant::BlockQ2K>(out)[b];
    KQuantWithMin<16> k;
    quantize_k_with_min<3, 15>(in, k);
    block.d = k.d;
    block.dmin = k.dmin;
    for (int s = 0; s < 16; ++s) {
      block.scales[s] = static_cast<std::uint8_t>(k.scales[s] | k.mins[s] << 4);
    }
    pack_2_bits(k.codes, block.quants);
  }
}

void encode_q3_k(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b, in += 256) {
    quant::BlockQ3K& block = blocks<quant::BlockQ3K>(out)[b];
    KQuantSymmetric k;
    quantize_k_symmetric<4, 32>(in, k);
    block.d = k.d;
    std::uint8_t scales[16];
    for (int s = 0; s < 16; ++s)
      scales[s] = static_cast<std::uint8_t>(k.scales[s] + 32);
    pack_scales_q3(scales, block.scales);
    pack_2_bits(k.codes, block.quants);
    for (int i = 0; i < 32; ++i) {
      int high = 0;
      for (int s = 0; s < 8; ++s)
        high |= (k.codes[32 * s + i] >> 2) << s;
      block.high[i] = static_cast<std::uint8_t>(high);
    }
  }
}

void encode_q4_k(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b, in += 256) {
    quant::BlockQ4K& block = blocks<quant::BlockQ4K>(out)[b];
    KQuantWithMin<8> k;
    quantize_k_with_min<15, 63>(in, k);
    block.d = k.d;
    block.dmin = k.dmin;
    pack_scales(k.scales, k.mins, block.scales);
    pack_nibbles_256(k.codes, block.quants);
  }
}

void encode_q5_k(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b, in += 256) {
    quant::BlockQ5K& block = blocks<quant::BlockQ5K>(out)[b];
    KQuantWithMin<8> k;
    quantize_k_with_min<31, 63>(in, k);
    block.d = k.d;
    block.dmin = k.dmin;
    pack_scales(k.scales, k.mins, block.scales);
    pack_nibbles_256(k.codes, block.quants);
    for (int i = 0; i < 32; ++i) {
      int high = 0;
      for (int s = 0; s < 8; ++s)
        high |= (k.codes[32 * s + i] >> 4) << s;
      block.high[i] = static_cast<std::uint8_t>(high);
    }
  }
}

void encode_q6_k(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b, in += 256) {
    quant::BlockQ6K& block = blocks<quant::BlockQ6K>(out)[b];
    KQuantSymmetric k;
    quantize_k_symmetric<32, 128>(in, k);
    block.d = k.d;
    for (int s = 0; s < 16; ++s)
      block.scales[s] = k.scales[s];
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t* q = k.codes + 128 * half;
      for (int i = 0; i < 64; ++i) {
        block.low[64 * half + i] = static_cast<std::uint8_t>((q[i] & 15) | (q[i + 64] & 15) << 4);
      }
      for (int i = 0; i < 32; ++i) {
        block.high[32 * half + i] = static_cast<std::uint8_t>(
            q[i] >> 4 | (q[i + 32] >> 4) << 2 | (q[i + 64] >> 4) << 4 | (q[i + 96] >> 4) << 6);
      }
    }
  }
}

// The scale is f32 here, so only NaN (read as 0) and infinity (read as +-3e38) are special.
void encode_q8_k(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 256; ++b, in += 256) {
    quant::BlockQ8K& block = blocks<quant::BlockQ8K>(out)[b];
    alignas(64) float x[256];
    F32x16 size = 0.0F;
    for (int i = 0; i < 256; i += kLanes) {
      const F32x16 v = load_finite(in + i, 3e38F);
      store(x + i, v);
      size = vmax(size, vabs(v));
    }
    const float d = max_lane(size) / 127.0F;
    block.d = d;
    const float inv = d > 1e-37F ? 1.0F / d : 0.0F;
    for (int i = 0; i < 256; i += kLanes)
      store(x + i, round_even(clamp(load(x + i) * inv, -127, 127)));
    for (int s = 0; s < 16; ++s) {
      int total = 0;
      for (int i = 0; i < 16; ++i) {
        const int q = static_cast<int>(x[16 * s + i]);
        block.quants[16 * s + i] = static_cast<std::int8_t>(q);
        total += q;
      }
      block.sums[s] = static_cast<std::int16_t>(total);
    }
  }
}

}  // namespace
