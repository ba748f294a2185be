// Words: 64 bytes as 16 lanes of 32 bits, one lane per panel row, holding either four codes or an
// int32 sum. See graft/quant/simd-inl.h for the rules of these files: included inside an
// instruction-set region, after simd-inl.h.

namespace {

#if GRAFT_VECTOR_BYTES == 64

typedef std::uint8_t Bytes64 __attribute__((vector_size(64)));    // NOLINT
typedef std::uint16_t Shorts32 __attribute__((vector_size(64)));  // NOLINT

struct Words {
  Bytes64 v;
};

GRAFT_INLINE Words load_words(const std::byte* from) {
  Words w;
  __builtin_memcpy(&w.v, from, sizeof(w.v));
  return w;
}

GRAFT_INLINE void store_words(std::byte* to, Words w) {
  __builtin_memcpy(to, &w.v, sizeof(w.v));
}

GRAFT_INLINE Words operator|(Words a, Words b) {
  return {a.v | b.v};
}

// (byte >> down) & mask for every byte; a negative `down` shifts left.
GRAFT_INLINE Words shift_and_mask(Words w, int down, int mask) {
  const auto shorts = reinterpret_cast<Shorts32>(w.v);
  const Shorts32 moved = down >= 0 ? shorts >> down : shorts << -down;
  return {reinterpret_cast<Bytes64>(moved) & static_cast<std::uint8_t>(mask)};
}

GRAFT_INLINE Words look_up(const std::uint8_t* table, Words codes) {
  const __m512i all =
      _mm512_maskz_broadcast_i32x4(0xffff, reinterpret_cast<__m128i>(load_bytes(table)));
  return {reinterpret_cast<Bytes64>(
      _mm512_maskz_shuffle_epi8(~std::uint64_t{0}, all, reinterpret_cast<__m512i>(codes.v)))};
}

// Broadcasts `value` to all lanes.
GRAFT_INLINE Words all_words(std::int32_t value) {
  return {reinterpret_cast<Bytes64>(_mm512_set1_epi32(value))};
}

// sum[lane] += dot(four uint8 codes of the lane, four int8 values of x); x is never -128. kSigned:
// codes stand for code - 128, multiplied as int8.
template <bool kSigned>
GRAFT_INLINE Words add_products(Words sum, Words codes, std::int32_t x) {
  return {reinterpret_cast<Bytes64>(_mm512_dpbusd_epi32(
      reinterpret_cast<__m512i>(sum.v), reinterpret_cast<__m512i>(codes.v), _mm512_set1_epi32(x)))};
}

GRAFT_INLINE Words add_words(Words w, std::int32_t value) {
  const __m512i sum = _mm512_add_epi32(reinterpret_cast<__m512i>(w.v), _mm512_set1_epi32(value));
  return {reinterpret_cast<Bytes64>(sum)};
}

GRAFT_INLINE F32x16 to_floats(Words w) {
  return {_mm512_maskz_cvtepi32_ps(0xffff, reinterpret_cast<__m512i>(w.v))};
}

GRAFT_INLINE F32x16 load_f16(const std::byte* from) {
  __m256i halves;
  __builtin_memcpy(&halves, from, sizeof(halves));
  return {_mm512_maskz_cvtph_ps(0xffff, halves)};
}

GRAFT_INLINE F32x16 load_signed_bytes(const std::byte* from) {
  const __m512i words =
      _mm512_maskz_cvtepi8_epi32(0xffff, reinterpret_cast<__m128i>(load_bytes(from)));
  return {_mm512_maskz_cvtepi32_ps(0xffff, words)};
}

// vpdpbusd multiplies uint8 codes of any size exactly.
inline constexpr bool kSignedCodes = false;

#elif GRAFT_VECTOR_BYTES == 32

typedef std::uint8_t Bytes32 __attribute__((vector_size(32)));    // NOLINT
typedef std::uint16_t Shorts16 __attribute__((vector_size(32)));  // NOLINT

struct Words {
  Bytes32 low, high;
};

GRAFT_INLINE Words load_words(const std::byte* from) {
  Words w;
  __builtin_memcpy(&w.low, from, sizeof(w.low));
  __builtin_memcpy(&w.high, from + 32, sizeof(w.high));
  return w;
}

GRAFT_INLINE void store_words(std::byte* to, Words w) {
  __builtin_memcpy(to, &w.low, sizeof(w.low));
  __builtin_memcpy(to + 32, &w.high, sizeof(w.high));
}

GRAFT_INLINE Words operator|(Words a, Words b) {
  return {a.low | b.low, a.high | b.high};
}

GRAFT_INLINE Bytes32 shift_and_mask(Bytes32 v, int down, int mask) {
  const auto shorts = reinterpret_cast<Shorts16>(v);
  const Shorts16 moved = down >= 0 ? shorts >> down : shorts << -down;
  return reinterpret_cast<Bytes32>(moved) & static_cast<std::uint8_t>(mask);
}

GRAFT_INLINE Words shift_and_mask(Words w, int down, int mask) {
  return {shift_and_mask(w.low, down, mask), shift_and_mask(w.high, down, mask)};
}

GRAFT_INLINE Words look_up(const std::uint8_t* table, Words codes) {
  const __m256i all = _mm256_broadcastsi128_si256(reinterpret_cast<__m128i>(load_bytes(table)));
  return {
      reinterpret_cast<Bytes32>(_mm256_shuffle_epi8(all, reinterpret_cast<__m256i>(codes.low))),
      reinterpret_cast<Bytes32>(_mm256_shuffle_epi8(all, reinterpret_cast<__m256i>(codes.high)))};
}

GRAFT_INLINE Words all_words(std::int32_t value) {
  const auto all = reinterpret_cast<Bytes32>(_mm256_set1_epi32(value));
  return {all, all};
}

// vpmaddubsw adds pairs of products in 16 bits: exact for codes up to 128. Codes with offset 128
// are split into magnitude and sign, and the sign is applied to x.
template <bool kSigned>
GRAFT_INLINE Bytes32 add_products(Bytes32 sum, Bytes32 codes, __m256i x) {
  auto unsigned_codes = reinterpret_cast<__m256i>(codes);
  if constexpr (kSigned) {
    const auto signed_codes = reinterpret_cast<__m256i>(codes ^ 0x80);
    unsigned_codes = _mm256_abs_epi8(signed_codes);
    x = _mm256_sign_epi8(x, signed_codes);
  }
  const __m256i pairs = _mm256_maddubs_epi16(unsigned_codes, x);
  const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  return reinterpret_cast<Bytes32>(_mm256_add_epi32(reinterpret_cast<__m256i>(sum), fours));
}

template <bool kSigned>
GRAFT_INLINE Words add_products(Words sum, Words codes, std::int32_t x) {
  const __m256i all = _mm256_set1_epi32(x);
  return {add_products<kSigned>(sum.low, codes.low, all),
          add_products<kSigned>(sum.high, codes.high, all)};
}

GRAFT_INLINE F32x16 to_floats(Words w) {
  return {F32<8>(_mm256_cvtepi32_ps(reinterpret_cast<__m256i>(w.low))),
          F32<8>(_mm256_cvtepi32_ps(reinterpret_cast<__m256i>(w.high)))};
}

GRAFT_INLINE F32x16 load_f16(const std::byte* from) {
  const auto low = reinterpret_cast<__m128i>(load_bytes(from));
  const auto high = reinterpret_cast<__m128i>(load_bytes(from + 16));
  return {F32<8>(_mm256_cvtph_ps(low)), F32<8>(_mm256_cvtph_ps(high))};
}

GRAFT_INLINE F32x16 load_signed_bytes(const std::byte* from) {
  return from_signed_bytes(load_bytes(from));
}

inline constexpr bool kSignedCodes = true;

#else

struct Words {
  std::uint8_t bytes[64];
};

GRAFT_INLINE Words load_words(const std::byte* from) {
  Words w;
  __builtin_memcpy(w.bytes, from, sizeof(w.bytes));
  return w;
}

GRAFT_INLINE void store_words(std::byte* to, Words w) {
  __builtin_memcpy(to, w.bytes, sizeof(w.bytes));
}

GRAFT_INLINE Words operator|(Words a, Words b) {
  for (int i = 0; i < 64; ++i)
    a.bytes[i] |= b.bytes[i];
  return a;
}

GRAFT_INLINE Words shift_and_mask(Words w, int down, int mask) {
  for (int i = 0; i < 64; ++i) {
    const int moved = down >= 0 ? w.bytes[i] >> down : w.bytes[i] << -down;
    w.bytes[i] = static_cast<std::uint8_t>(moved & mask);
  }
  return w;
}

GRAFT_INLINE Words look_up(const std::uint8_t* table, Words codes) {
  for (int i = 0; i < 64; ++i)
    codes.bytes[i] = table[codes.bytes[i]];
  return codes;
}

GRAFT_INLINE Words all_words(std::int32_t value) {
  Words w;
  for (int i = 0; i < 16; ++i)
    __builtin_memcpy(w.bytes + 4 * i, &value, sizeof(value));
  return w;
}

template <bool kSigned>
GRAFT_INLINE Words add_products(Words sum, Words codes, std::int32_t x) {
  std::int8_t factors[4];
  __builtin_memcpy(factors, &x, sizeof(factors));
  std::int32_t totals[16];
  __builtin_memcpy(totals, sum.bytes, sizeof(totals));
  for (int i = 0; i < 16; ++i) {
    for (int b = 0; b < 4; ++b)
      totals[i] += codes.bytes[4 * i + b] * factors[b];
  }
  __builtin_memcpy(sum.bytes, totals, sizeof(totals));
  return sum;
}

GRAFT_INLINE F32x16 to_floats(Words w) {
  std::int32_t totals[16];
  __builtin_memcpy(totals, w.bytes, sizeof(totals));
  float values[16];
  for (int i = 0; i < 16; ++i)
    values[i] = static_cast<float>(totals[i]);
  return load(values);
}

GRAFT_INLINE F32x16 load_f16(const std::byte* from) {
  std::uint16_t halves[16];
  __builtin_memcpy(halves, from, sizeof(halves));
  float values[16];
  for (int i = 0; i < 16; ++i)
    values[i] = from_f16(halves[i]);
  return load(values);
}

GRAFT_INLINE F32x16 load_signed_bytes(const std::byte* from) {
  return from_signed_bytes(load_bytes(from));
}

inline constexpr bool kSignedCodes = false;

#endif

}  // namespace
