// Converts stored rows of weights or of the KV cache to float. See graft/quant/simd-inl.h for the
// rules of these files: included inside an instruction-set region, after simd-inl.h.

namespace {

// From* structs convert a stored type: one() a single code, native() or natives() whole registers
// (not at the baseline).
struct FromF16 {
  using Code = std::uint16_t;
  static constexpr bool kScaled = false;
  static constexpr int kNatives = 1;
  static GRAFT_INLINE float one(Code code) { return from_f16(code); }
#if GRAFT_VECTOR_BYTES == 64
  static GRAFT_INLINE NativeF32 native(const std::byte* in) {
    __m256i codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    return _mm512_maskz_cvtph_ps(0xffff, codes);
  }
#elif GRAFT_VECTOR_BYTES == 32
  static GRAFT_INLINE NativeF32 native(const std::byte* in) {
    __m128i codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    return _mm256_cvtph_ps(codes);
  }
#elif GRAFT_NEON
  static GRAFT_INLINE NativeF32 native(const std::byte* in) {
    float16x4_t codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    return vcvt_f32_f16(codes);
  }
#endif
};

struct FromBf16 {
  using Code = std::uint16_t;
  static constexpr bool kScaled = false;
  static constexpr int kNatives = 1;
  static GRAFT_INLINE float one(Code code) {
    return as_float(static_cast<std::uint32_t>(code) << 16);
  }
#if GRAFT_VECTOR_BYTES == 64
  static GRAFT_INLINE NativeF32 native(const std::byte* in) {
    __m256i codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    return reinterpret_cast<NativeF32>(
        _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, codes), 16));
  }
#elif GRAFT_VECTOR_BYTES == 32
  static GRAFT_INLINE NativeF32 native(const std::byte* in) {
    __m128i codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    return reinterpret_cast<NativeF32>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16));
  }
#elif GRAFT_NEON
  static GRAFT_INLINE NativeF32 native(const std::byte* in) {
    uint16x4_t codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    return vreinterpretq_f32_u32(vshll_n_u16(codes, 16));
  }
#endif
};

#if !GRAFT_SCALAR
// E4M3 bits shifted into an f16 are the value / kUnit, so the f16 conversion instruction does the
// work; kUnit is multiplied into the scale beforehand.
struct FromE4m3 {
  using Code = std::uint8_t;
  static constexpr bool kScaled = true;
  static constexpr float kUnit = 256.0F;
  static GRAFT_INLINE float one(Code code) {
    return from_minifloat<4, 3, false>(code) * (1.0F / kUnit);
  }
#if GRAFT_VECTOR_BYTES == 64
  static constexpr int kNatives = 2;
  static GRAFT_INLINE void natives(const std::byte* in, NativeF32* out) {
    __m256i codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    const __mmask32 nans =
        _mm256_cmpeq_epi8_mask(codes | _mm256_set1_epi8(-128), _mm256_set1_epi8(-1));
    // Sign extension leaves copies of the sign; clear the one in the highest exponent bit.
    __m512i halves = _mm512_maskz_slli_epi16(kAll, _mm512_maskz_cvtepi8_epi16(kAll, codes), 7);
    halves &= _mm512_set1_epi16(static_cast<std::int16_t>(0xbfff));
    halves = _mm512_mask_add_epi16(halves, nans, halves, _mm512_set1_epi16(kToNan));
    out[0] = _mm512_maskz_cvtph_ps(0xffff, __builtin_shufflevector(halves, halves, 0, 1, 2, 3));
    out[1] = _mm512_maskz_cvtph_ps(0xffff, __builtin_shufflevector(halves, halves, 4, 5, 6, 7));
  }
#elif GRAFT_NEON
  static constexpr int kNatives = 2;
  static GRAFT_INLINE void natives(const std::byte* in, NativeF32* out) {
    int8x8_t codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    uint16x8_t halves = vreinterpretq_u16_s16(vshlq_n_s16(vmovl_s8(codes), 7));
    halves = vandq_u16(halves, vdupq_n_u16(0xbfff));
    const uint16x8_t nans = vceqq_u16(vorrq_u16(halves, vdupq_n_u16(0x8000)), vdupq_n_u16(0xbf80));
    halves = vaddq_u16(halves, vandq_u16(nans, vdupq_n_u16(kToNan)));
    out[0] = vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(halves)));
    out[1] = vcvt_high_f32_f16(vreinterpretq_f16_u16(halves));
  }
#else
  static constexpr int kNatives = 2;
  static GRAFT_INLINE void natives(const std::byte* in, NativeF32* out) {
    __m128i codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    __m256i halves = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    halves = _mm256_and_si256(halves, _mm256_set1_epi16(static_cast<std::int16_t>(0xbfff)));
    const __m256i nans = _mm256_cmpeq_epi16(
        _mm256_or_si256(halves, _mm256_set1_epi16(static_cast<std::int16_t>(0x8000))),
        _mm256_set1_epi16(static_cast<std::int16_t>(0xbf80)));
    halves = _mm256_add_epi16(halves, _mm256_and_si256(nans, _mm256_set1_epi16(kToNan)));
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
  }
#endif

 private:
#if GRAFT_VECTOR_BYTES == 64
  static constexpr __mmask32 kAll = 0xffffffff;
#endif
  // Added to the shifted NaN code to give an f16 NaN.
  static constexpr std::int16_t kToNan = 0x3e80;
};

// E5M2 is the upper byte of an f16.
struct FromE5m2 {
  using Code = std::uint8_t;
  static constexpr bool kScaled = true;
  static constexpr float kUnit = 1.0F;
  static GRAFT_INLINE float one(Code code) { return from_minifloat<5, 2, true>(code); }
#if GRAFT_VECTOR_BYTES == 64
  static constexpr int kNatives = 1;
  static GRAFT_INLINE void natives(const std::byte* in, NativeF32* out) {
    __m128i codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    *out = _mm512_maskz_cvtph_ps(0xffff, _mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8));
  }
#elif GRAFT_NEON
  static constexpr int kNatives = 2;
  static GRAFT_INLINE void natives(const std::byte* in, NativeF32* out) {
    uint8x8_t codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    const float16x8_t halves = vreinterpretq_f16_u16(vshll_n_u8(codes, 8));
    out[0] = vcvt_f32_f16(vget_low_f16(halves));
    out[1] = vcvt_high_f32_f16(halves);
  }
#else
  static constexpr int kNatives = 2;
  static GRAFT_INLINE void natives(const std::byte* in, NativeF32* out) {
    __m128i codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    out[0] = _mm256_cvtph_ps(_mm_unpacklo_epi8(__m128i{}, codes));
    out[1] = _mm256_cvtph_ps(_mm_unpackhi_epi8(__m128i{}, codes));
  }
#endif
};
#endif

struct FromF32 {
  using Code = float;
  static constexpr bool kScaled = false;
  static constexpr int kNatives = 1;
  static GRAFT_INLINE float one(Code code) { return code; }
  static GRAFT_INLINE NativeF32 native(const std::byte* in) {
    NativeF32 v;
    __builtin_memcpy(&v, in, sizeof(v));
    return v;
  }
};

// Not inlined: the compiler would reserve registers for it in the loop over rows.
template <class From>
__attribute__((noinline)) void decode_tail(const std::byte* in, float* out, std::int64_t count) {
  using Code = typename From::Code;
  for (std::int64_t i = 0; i < count; ++i) {
    Code code;
    __builtin_memcpy(&code, in + i * static_cast<std::int64_t>(sizeof(code)), sizeof(code));
    out[i] = From::one(code);
  }
}

template <class From>
void decode_rows(StoredRows in, float* out) {
#if !GRAFT_SCALAR
  constexpr std::int64_t kBytes =
      kNativeLanes * static_cast<std::int64_t>(sizeof(typename From::Code));
  // KV cache rows are too far apart for the hardware prefetcher, so prefetch the next ones into L2:
  // with a stride of 2048 bytes L1 has too few sets.
  const std::int64_t ahead = in.next == nullptr ? 0 : in.next - in.data;
#endif
  const std::byte* row = in.data;
  for (std::int64_t r = 0; r < in.rows; ++r, row += in.stride) {
    const std::byte* from = row;
    std::int64_t left = in.cols;
#if !GRAFT_SCALAR
    for (; left >= 4 * kNativeLanes; left -= 4 * kNativeLanes) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        if (i * kBytes % 64 == 0) __builtin_prefetch(from + ahead + i * kBytes, 0, 2);
        const NativeF32 v = From::native(from + i * kBytes);
        __builtin_memcpy(out + i * kNativeLanes, &v, sizeof(v));
      }
      from += 4 * kBytes;
      out += 4 * kNativeLanes;
    }
    for (; left >= kNativeLanes; left -= kNativeLanes) {
      const NativeF32 v = From::native(from);
      __builtin_memcpy(out, &v, sizeof(v));
      from += kBytes;
      out += kNativeLanes;
    }
#endif
    if (left > 0) decode_tail<From>(from, out, left);
    out += left;
  }
}

// Transposes rows r .. r + 3; rows past the end read as zeros.
inline void transpose_four(
    RowPointers in, std::int64_t r, std::int64_t cols, float factor, float* to, std::int64_t ld) {
  const float* rows[4];
  for (std::int64_t i = 0; i < 4; ++i)
    rows[i] = in.data[r + i < in.rows ? r + i : r];
  float factors[4];
  for (std::int64_t i = 0; i < 4; ++i)
    factors[i] = r + i < in.rows ? factor : 0.0F;
  std::int64_t c = 0;
  for (; c + 4 <= cols; c += 4) {
    const V4 a = load_as<V4>(rows[0] + c) * factors[0];
    const V4 b = load_as<V4>(rows[1] + c) * factors[1];
    const V4 d = load_as<V4>(rows[2] + c) * factors[2];
    const V4 e = load_as<V4>(rows[3] + c) * factors[3];
    const V4 low_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const V4 high_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const V4 low_de = __builtin_shufflevector(d, e, 0, 4, 1, 5);
    const V4 high_de = __builtin_shufflevector(d, e, 2, 6, 3, 7);
    const V4 columns[4] = {__builtin_shufflevector(low_ab, low_de, 0, 1, 4, 5),
                           __builtin_shufflevector(low_ab, low_de, 2, 3, 6, 7),
                           __builtin_shufflevector(high_ab, high_de, 0, 1, 4, 5),
                           __builtin_shufflevector(high_ab, high_de, 2, 3, 6, 7)};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      __builtin_memcpy(to + (c + i) * ld + r, &columns[i], sizeof(V4));
  }
  for (; c < cols; ++c) {
    for (std::int64_t i = 0; i < 4; ++i)
      to[c * ld + r + i] = rows[i][c] * factors[i];
  }
}

inline void transpose(
    RowPointers rows, std::int64_t cols, float factor, float* to, std::int64_t ld) {
  for (std::int64_t r = 0; r < rows.rows; r += 4)
    transpose_four(rows, r, cols, factor, to, ld);
}

}  // namespace
