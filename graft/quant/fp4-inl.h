// The 4-bit floats MXFP4 (a power-of-two scale per 32 values) and NVFP4 (an E4M3 scale per 16).
// See simd-inl.h for the rules of these files.

namespace {

// Half the value of an E8M0 scale: kFp4Values are doubled. Code 255, NaN in the standard, reads as
// the next power of two.
GRAFT_INLINE float half_of_e8m0(std::uint32_t e) {
  return as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23);
}

void decode_mxfp4(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, out += 32) {
    const quant::BlockMXFP4& block = blocks<quant::BlockMXFP4>(in)[b];
    const float d = half_of_e8m0(block.e);
    const U8x16 q = load_bytes(block.quants);
    store(out, from_signed_bytes(look_up(quant::kFp4Values, bits_at(q, 0, 15))) * d);
    store(out + 16, from_signed_bytes(look_up(quant::kFp4Values, bits_at(q, 4, 15))) * d);
  }
}

// The scale is unsigned: the top bit is ignored and the NaN code reads as zero.
GRAFT_INLINE float half_of_ue4m3(std::uint32_t code) {
  if (code == 0x7f) return 0.0F;
  const std::uint32_t magnitude = code & 0x7f;
  return magnitude == 0x7f ? 240.0F : 0.5F * from_minifloat<4, 3, false>(magnitude);
}

void decode_nvfp4(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 64; ++b) {
    const quant::BlockNVFP4& block = blocks<quant::BlockNVFP4>(in)[b];
    for (int s = 0; s < 4; ++s, out += 16) {
      const float d = half_of_ue4m3(block.scales[s]);
      const std::uint8_t* quants = block.quants + 8 * s;
      std::uint64_t eight = 0;
      __builtin_memcpy(&eight, quants, sizeof(eight));
      constexpr std::uint64_t kNibbles = 0x0f0f0f0f0f0f0f0fU;
      const U64x2 codes = {eight & kNibbles, eight >> 4 & kNibbles};
      store(out, from_signed_bytes(look_up(quant::kFp4Values, reinterpret_cast<U8x16>(codes))) * d);
    }
  }
}

// E2M1 magnitudes 0 1/2 1 3/2 2 3 4 6: above threshold k magnitude k + 1 is nearer than k.
inline constexpr float kFp4Thresholds[7] = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};
inline constexpr float kFp4Steps[7] = {0.5F, 0.5F, 0.5F, 0.5F, 1.0F, 1.0F, 2.0F};

GRAFT_INLINE F32x16 nearest_fp4(F32x16 size) {
  F32x16 q = 0.0F;
  for (int k = 0; k < 7; ++k)
    q += select(size > kFp4Thresholds[k], kFp4Steps[k], 0.0F);
  return q;
}

GRAFT_INLINE F32x16 index_fp4(F32x16 x) {
  const F32x16 size = vabs(x);
  F32x16 q = 0.0F;
  for (int k = 0; k < 7; ++k)
    q += select(size > kFp4Thresholds[k], 1.0F, 0.0F);
  return select((x < 0.0F) & (q > 0.0F), q + 8.0F, q);
}

GRAFT_INLINE F32x16 fp4_error(F32x16 x, float inv) {
  const F32x16 size = vabs(x * inv);
  const F32x16 off = nearest_fp4(size) - size;
  return off * off;
}

// With the next exponent the largest magnitude, 6, would overflow float.
inline constexpr std::uint32_t kLargestExponent = 252;

// Tries the power of two that scales the largest value into [4, 8) and the next larger one, and
// keeps the one with the smaller squared error. NaN reads as 0, infinity as +-3e38.
void encode_mxfp4(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t b = 0; b < n / 32; ++b, in += 32) {
    quant::BlockMXFP4& block = blocks<quant::BlockMXFP4>(out)[b];
    const F32x16 x = load_finite(in, 3e38F);
    const F32x16 y = load_finite(in + kLanes, 3e38F);
    const std::uint32_t exponent = as_bits(max_lane(vmax(vabs(x), vabs(y)))) >> 23;
    std::uint32_t e = exponent < 2 ? 0 : exponent - 2;
    // 1 / 2^(e - 127) is a float for every e here: 0..252.
    const float full = as_float((254 - e) << 23);
    const float half = as_float((253 - e) << 23);
    const float full_error = sum(fp4_error(x, full) + fp4_error(y, full));
    const float half_error = sum(fp4_error(x, half) + fp4_error(y, half));
    if (4.0F * half_error < full_error && e < kLargestExponent) ++e;
    const float inv = as_float((254 - e) << 23);
    block.e = static_cast<std::uint8_t>(e);
    store_bytes(block.quants, index_fp4(x * inv) + 16.0F * index_fp4(y * inv));
  }
}

}  // namespace
