// Reads keys and values of the KV cache as stored, for attention of few query rows: keys are
// decoded and transposed for `product`, values are decoded in the registers that multiply them.
// Both give the bits of decoding first. See graft/quant/simd-inl.h for the rules of these files:
// included inside an instruction-set region, after product-inl.h and rows-inl.h. Not at levels with
// vectors of 16 bytes, where decoding first is faster.

#if GRAFT_VECTOR_BYTES >= 32
namespace {

// Vector* structs read a row of a stored type: get(row, i) is its i-th native register.
template <class From>
struct VectorOf {
  static GRAFT_INLINE NativeF32 get(const std::byte* row, std::int64_t i) {
    return From::native(row +
                        i * kNativeLanes * static_cast<std::int64_t>(sizeof(typename From::Code)));
  }
};

// Bytes as floats, one native register.
GRAFT_INLINE NativeF32 signed_bytes(const std::byte* in) {
#if GRAFT_VECTOR_BYTES == 64
  __m128i codes;
  __builtin_memcpy(&codes, in, sizeof(codes));
  return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, codes));
#else
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in))));
#endif
}

// An f16 in all lanes.
GRAFT_INLINE NativeF32 all_f16(const std::byte* in) {
  std::uint16_t code = 0;
  __builtin_memcpy(&code, in, sizeof(code));
#if GRAFT_VECTOR_BYTES == 64
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_set1_epi16(static_cast<std::int16_t>(code)));
#else
  return _mm256_cvtph_ps(_mm_set1_epi16(static_cast<std::int16_t>(code)));
#endif
}

struct VectorQ80 {
  static constexpr std::int64_t kPerBlock = 32 / kNativeLanes;
  static GRAFT_INLINE NativeF32 get(const std::byte* row, std::int64_t i) {
    const std::byte* const block =
        row + i / kPerBlock * static_cast<std::int64_t>(sizeof(quant::BlockQ80));
    return signed_bytes(block + 2 + i % kPerBlock * kNativeLanes) * all_f16(block);
  }
};

// The first half of a block is in the low nibbles.
struct VectorQ40 {
  static constexpr std::int64_t kPerBlock = 32 / kNativeLanes;
  static GRAFT_INLINE NativeF32 get(const std::byte* row, std::int64_t i) {
    const std::byte* const block =
        row + i / kPerBlock * static_cast<std::int64_t>(sizeof(quant::BlockQ40));
    const std::int64_t first = i % kPerBlock * kNativeLanes;
    const std::byte* const bytes = block + 2 + first % 16;
    const int shift = first < 16 ? 0 : 4;
#if GRAFT_VECTOR_BYTES == 64
    __m128i codes;
    __builtin_memcpy(&codes, bytes, sizeof(codes));
    const __m512i nibbles =
        _mm512_maskz_srlv_epi32(0xffff, _mm512_maskz_cvtepu8_epi32(0xffff, codes),
                                _mm512_set1_epi32(shift)) &
        _mm512_set1_epi64(0x0000000f0000000f);
    return (_mm512_maskz_cvtepi32_ps(0xffff, nibbles) - 8.0F) * all_f16(block);
#else
    const __m256i codes =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
    const __m256i nibbles =
        _mm256_and_si256(_mm256_srlv_epi32(codes, _mm256_set1_epi32(shift)), _mm256_set1_epi32(15));
    return (_mm256_cvtepi32_ps(nibbles) - 8.0F) * all_f16(block);
#endif
  }
};

// See FromE4m3: the bits shifted into an f16 are the value / 256.
struct VectorE4m3 {
  static GRAFT_INLINE NativeF32 get(const std::byte* row, std::int64_t i) {
    const std::byte* const in = row + i * kNativeLanes;
    constexpr auto kClear = static_cast<std::int16_t>(0xbfff);
    constexpr auto kSign = static_cast<std::int16_t>(0x8000);
    constexpr auto kNan = static_cast<std::int16_t>(0xbf80);
    constexpr std::int16_t kToNan = 0x3e80;
#if GRAFT_VECTOR_BYTES == 64
    __m128i codes;
    __builtin_memcpy(&codes, in, sizeof(codes));
    __m256i halves = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    halves = _mm256_and_si256(halves, _mm256_set1_epi16(kClear));
    const __m256i nans = _mm256_cmpeq_epi16(_mm256_or_si256(halves, _mm256_set1_epi16(kSign)),
                                            _mm256_set1_epi16(kNan));
    halves = _mm256_add_epi16(halves, _mm256_and_si256(nans, _mm256_set1_epi16(kToNan)));
    return _mm512_maskz_cvtph_ps(0xffff, halves) * 256.0F;
#else
    __m128i halves =
        _mm_slli_epi16(_mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in))), 7);
    halves = _mm_and_si128(halves, _mm_set1_epi16(kClear));
    const __m128i nans =
        _mm_cmpeq_epi16(_mm_or_si128(halves, _mm_set1_epi16(kSign)), _mm_set1_epi16(kNan));
    halves = _mm_add_epi16(halves, _mm_and_si128(nans, _mm_set1_epi16(kToNan)));
    return _mm256_cvtph_ps(halves) * 256.0F;
#endif
  }
};

#if GRAFT_VECTOR_BYTES == 64
// In each quarter: interleaves the lower or upper two lanes of a and b, singly or in pairs.
GRAFT_INLINE V16 low_lanes(V16 a, V16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
GRAFT_INLINE V16 high_lanes(V16 a, V16 b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
GRAFT_INLINE V16 low_pairs(V16 a, V16 b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
GRAFT_INLINE V16 high_pairs(V16 a, V16 b) {
  return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
// Quarters 0 and 2, or 1 and 3, of a and then of b.
GRAFT_INLINE V16 even_quarters(V16 a, V16 b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
}
GRAFT_INLINE V16 odd_quarters(V16 a, V16 b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}
#else
GRAFT_INLINE V8 low_lanes(V8 a, V8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
GRAFT_INLINE V8 high_lanes(V8 a, V8 b) {
  return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
GRAFT_INLINE V8 low_pairs(V8 a, V8 b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
}
GRAFT_INLINE V8 high_pairs(V8 a, V8 b) {
  return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
#endif

// Four rows: after it, quarter q of x[j] holds column 4 q + j of the rows.
GRAFT_INLINE void transpose_quarters(NativeF32* x) {
  const NativeF32 a = low_lanes(x[0], x[1]);
  const NativeF32 b = high_lanes(x[0], x[1]);
  const NativeF32 c = low_lanes(x[2], x[3]);
  const NativeF32 d = high_lanes(x[2], x[3]);
  x[0] = low_pairs(a, c);
  x[1] = high_pairs(a, c);
  x[2] = low_pairs(b, d);
  x[3] = high_pairs(b, d);
}

// Writes columns of the transposed square x[kNativeLanes] to out, `ld` floats apart.
GRAFT_INLINE void store_transposed(NativeF32* x, float* out, std::int64_t ld) {
#pragma GCC unroll 4
  for (int i = 0; i < kNativeLanes; i += 4)
    transpose_quarters(x + i);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
#if GRAFT_VECTOR_BYTES == 64
    const V16 even_low = even_quarters(x[j], x[4 + j]);
    const V16 odd_low = odd_quarters(x[j], x[4 + j]);
    const V16 even_high = even_quarters(x[8 + j], x[12 + j]);
    const V16 odd_high = odd_quarters(x[8 + j], x[12 + j]);
    const V16 columns[4] = {even_quarters(even_low, even_high), even_quarters(odd_low, odd_high),
                            odd_quarters(even_low, even_high), odd_quarters(odd_low, odd_high)};
#else
    const V8 a = x[j];
    const V8 b = x[4 + j];
    const V8 columns[2] = {__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11),
                           __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)};
#endif
#pragma GCC unroll 4
    for (int q = 0; q < kNativeLanes / 4; ++q)
      __builtin_memcpy(out + (4 * q + j) * ld, &columns[q], sizeof(NativeF32));
  }
}

GRAFT_INLINE void prefetch_row(const StoredBlock& in, std::int64_t row) {
  if (in.next == nullptr) return;
  const std::byte* const next = in.next[row] + in.offset;
  for (std::int64_t at = 0; at < in.bytes; at += 64)
    __builtin_prefetch(next + at, 0, 2);
}

template <class Vector>
void decode_transposed(const StoredBlock& in, float* out, std::int64_t ld) {
  for (std::int64_t r = 0; r < in.count; r += kNativeLanes) {
    const std::byte* rows[kNativeLanes];
    for (std::int64_t i = 0; i < kNativeLanes; ++i) {
      const std::int64_t row = r + i < in.count ? r + i : in.count - 1;
      rows[i] = in.rows[row] + in.offset;
      prefetch_row(in, row);
    }
    for (std::int64_t v = 0; v < in.cols / kNativeLanes; ++v) {
      NativeF32 x[kNativeLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kNativeLanes; ++i)
        x[i] = Vector::get(rows[i], v);
      store_transposed(x, out + v * kNativeLanes * ld + r, ld);
    }
  }
}

// kM query rows and kN registers of columns from register v on.
template <class Vector, int kM, int kN>
void value_tile(const StoredBlock& in, const WeightedSum& sum, std::int64_t m, std::int64_t v) {
  NativeF32 acc[kM][kN];
  float* const out = sum.acc + m * sum.ld + v * kNativeLanes;
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kN; ++j) {
      acc[i][j] = load_native(out + i * sum.ld + j * kNativeLanes) *
                  all_lanes<NativeF32>(sum.factor[m + i]);
    }
  }
  const float* weights = sum.weights + m;
  for (std::int64_t k = 0; k < in.count; ++k, weights += sum.width) {
    const std::byte* const row = in.rows[k] + in.offset;
    NativeF32 values[kN];
#pragma GCC unroll 4
    for (int j = 0; j < kN; ++j)
      values[j] = Vector::get(row, v + j);
#pragma GCC unroll 8
    for (int i = 0; i < kM; ++i) {
      const auto weight = all_lanes<NativeF32>(weights[i]);
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j)
        acc[i][j] = mul_add(weight, values[j], acc[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kN; ++j)
      __builtin_memcpy(out + i * sum.ld + j * kNativeLanes, &acc[i][j], sizeof(NativeF32));
  }
}

// Tiles of as many query rows and registers as the register file holds (32 and 16).
template <class Vector, int kM>
std::int64_t value_rows(const StoredBlock& in, const WeightedSum& sum, std::int64_t m) {
  constexpr int kRegisters = GRAFT_VECTOR_BYTES == 64 ? 16 : 8;
  constexpr int kN = kRegisters / kM > 4 ? 4 : (kRegisters / kM < 1 ? 1 : kRegisters / kM);
  const std::int64_t vectors = in.cols / kNativeLanes;
  std::int64_t v = 0;
  for (; v + kN <= vectors; v += kN)
    value_tile<Vector, kM, kN>(in, sum, m, v);
  for (; v < vectors; ++v)
    value_tile<Vector, kM, 1>(in, sum, m, v);
  return m + kM;
}

template <class Vector>
void add_values(const StoredBlock& in, const WeightedSum& sum) {
  for (std::int64_t k = 0; k < in.count; ++k)
    prefetch_row(in, k);
  std::int64_t m = 0;
  while (m + 8 <= sum.m)
    m = value_rows<Vector, 8>(in, sum, m);
  if (m + 4 <= sum.m) m = value_rows<Vector, 4>(in, sum, m);
  if (m + 2 <= sum.m) m = value_rows<Vector, 2>(in, sum, m);
  if (m < sum.m) value_rows<Vector, 1>(in, sum, m);
}

template <class Vector>
inline constexpr StoredAttention kStoredAttention = {.decode_transposed = decode_transposed<Vector>,
                                                     .add_values = add_values<Vector>};

}  // namespace
#endif
