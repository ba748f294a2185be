// Words as in packed/words-inl.h, as four NEON registers. With GRAFT_DOTPROD products use sdot. See
// graft/quant/simd-inl.h for the rules of these files: included inside an instruction-set region,
// after simd-inl.h.

namespace {

struct Words {
  uint8x16_t v[4];
};

GRAFT_INLINE Words load_words(const std::byte* from) {
  Words w;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    w.v[i] = load_bytes(from + 16 * i);
  return w;
}

GRAFT_INLINE void store_words(std::byte* to, Words w) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    __builtin_memcpy(to + 16 * i, &w.v[i], sizeof(w.v[i]));
}

GRAFT_INLINE Words operator|(Words a, Words b) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    a.v[i] |= b.v[i];
  return a;
}

// (byte >> down) & mask for every byte; a negative `down` shifts left.
GRAFT_INLINE Words shift_and_mask(Words w, int down, int mask) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const uint8x16_t moved = down >= 0 ? w.v[i] >> down : w.v[i] << -down;
    w.v[i] = moved & static_cast<std::uint8_t>(mask);
  }
  return w;
}

GRAFT_INLINE Words look_up(const std::uint8_t* table, Words codes) {
  const uint8x16_t values = load_bytes(table);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    codes.v[i] = vqtbl1q_u8(values, codes.v[i]);
  return codes;
}

// Broadcasts `value` to all lanes.
GRAFT_INLINE Words all_words(std::int32_t value) {
  const uint8x16_t all = vreinterpretq_u8_s32(vdupq_n_s32(value));
  return {all, all, all, all};
}

// Codes as int8: they are below 128, or with kSigned stand for code - 128.
template <bool kSigned>
GRAFT_INLINE int8x16_t signed_codes(uint8x16_t codes) {
  if constexpr (kSigned) codes = veorq_u8(codes, vdupq_n_u8(0x80));
  return vreinterpretq_s8_u8(codes);
}

// sum[lane] += dot(four codes of the lane, four values of x); x is never -128.
GRAFT_INLINE int32x4_t add_dot(int32x4_t sum, int8x16_t codes, int8x16_t x) {
#ifdef GRAFT_DOTPROD
  return vdotq_s32(sum, codes, x);
#else
  const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(codes), vget_low_s8(x)));
  const int32x4_t high = vpaddlq_s16(vmull_high_s8(codes, x));
  return vaddq_s32(sum, vpaddq_s32(low, high));
#endif
}

template <bool kSigned>
GRAFT_INLINE Words add_products(Words sum, Words codes, std::int32_t x) {
  const int8x16_t all = vreinterpretq_s8_s32(vdupq_n_s32(x));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    sum.v[i] = vreinterpretq_u8_s32(
        add_dot(vreinterpretq_s32_u8(sum.v[i]), signed_codes<kSigned>(codes.v[i]), all));
  }
  return sum;
}

GRAFT_INLINE F32x16 to_floats(Words w) {
  float32x4_t f[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    f[i] = vcvtq_f32_s32(vreinterpretq_s32_u8(w.v[i]));
  return {F32<8>(F32<4>(f[0]), F32<4>(f[1])), F32<8>(F32<4>(f[2]), F32<4>(f[3]))};
}

GRAFT_INLINE F32<8> load_eight_f16(const std::byte* from) {
  const float16x8_t halves = vreinterpretq_f16_u8(load_bytes(from));
  return {F32<4>(vcvt_f32_f16(vget_low_f16(halves))), F32<4>(vcvt_high_f32_f16(halves))};
}

GRAFT_INLINE F32x16 load_f16(const std::byte* from) {
  return {load_eight_f16(from), load_eight_f16(from + 16)};
}

GRAFT_INLINE F32x16 load_signed_bytes(const std::byte* from) {
  return from_signed_bytes(load_bytes(from));
}

// sdot and smmla multiply int8.
inline constexpr bool kSignedCodes = true;

}  // namespace
