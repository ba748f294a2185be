// Rows of a cache to float. See graft/quant/simd-inl.h for the rules of these files: included
// inside an instruction-set region, after simd-inl.h.

namespace {

template <class From>
GRAFT_INLINE NativeF32 one_by_one(const std::byte* in) {
  typename From::Code codes[kNativeLanes];
  __builtin_memcpy(codes, in, sizeof(codes));
  NativeF32 v;
  for (int i = 0; i < kNativeLanes; ++i)
    v[i] = From::one(codes[i]);
  return v;
}

struct FromF16 {
  using Code = std::uint16_t;
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
#else
  static GRAFT_INLINE NativeF32 native(const std::byte* in) {
    return one_by_one<FromF16>(in);
  }
#endif
};

struct FromBf16 {
  using Code = std::uint16_t;
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
#else
  static GRAFT_INLINE NativeF32 native(const std::byte* in) {
    return one_by_one<FromBf16>(in);
  }
#endif
};

struct FromF32 {
  using Code = float;
  static GRAFT_INLINE float one(Code code) { return code; }
  static GRAFT_INLINE NativeF32 native(const std::byte* in) {
    NativeF32 v;
    __builtin_memcpy(&v, in, sizeof(v));
    return v;
  }
};

// Apart, or the compiler keeps registers for it in the loop over rows.
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
#if GRAFT_VECTOR_BYTES >= 32
  constexpr std::int64_t kBytes =
      kNativeLanes * static_cast<std::int64_t>(sizeof(typename From::Code));
  // A cache's rows lie too far apart for the processor to see a pattern in them, so the next ones
  // are asked for by name, into the second level: with strides of 2048 the first has no room.
  const std::int64_t ahead = in.next == nullptr ? 0 : in.next - in.data;
#endif
  const std::byte* row = in.data;
  for (std::int64_t r = 0; r < in.rows; ++r, row += in.stride) {
    const std::byte* from = row;
    std::int64_t left = in.cols;
#if GRAFT_VECTOR_BYTES >= 32
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

// Four rows from r on; those past the end read as zeros.
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
