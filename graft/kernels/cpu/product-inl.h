// Matrix products whose every value is one chain of multiplications and additions in the order of
// its terms: the bits follow from neither the width of the registers nor the rows beside it. Unlike
// the other kernels they fuse the two where the instruction set can: twice the speed, and AVX2 and
// AVX-512 still agree to the bit; the baseline may differ in the last places. See
// graft/quant/simd-inl.h for the rules of these files: included inside an instruction-set region,
// after simd-inl.h.

namespace {

typedef float V4 __attribute__((vector_size(16)));   // NOLINT
typedef float V8 __attribute__((vector_size(32)));   // NOLINT
typedef float V16 __attribute__((vector_size(64)));  // NOLINT

// a b + c
#if GRAFT_VECTOR_BYTES >= 32
GRAFT_INLINE float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
GRAFT_INLINE V4 fused(V4 a, V4 b, V4 c) {
  return _mm_fmadd_ps(a, b, c);
}
GRAFT_INLINE V8 fused(V8 a, V8 b, V8 c) {
  return _mm256_fmadd_ps(a, b, c);
}
#else
template <class V>
GRAFT_INLINE V fused(V a, V b, V c) {
  return a * b + c;
}
#endif
#if GRAFT_VECTOR_BYTES == 64
GRAFT_INLINE V16 fused(V16 a, V16 b, V16 c) {
  return _mm512_fmadd_ps(a, b, c);
}
#endif

template <int kCount>
GRAFT_INLINE F32<kCount> fused(F32<kCount> a, F32<kCount> b, F32<kCount> c) {
  if constexpr (kCount == kNativeLanes) {
    return {fused(a.v, b.v, c.v)};
  } else {
    return {fused(a.low, b.low, c.low), fused(a.high, b.high, c.high)};
  }
}

template <class V>
GRAFT_INLINE V all_lanes(float value) {
  return value - V{};  // folded, unlike a sum: -0 + 0 is not -0
}

template <class V>
GRAFT_INLINE V load_as(const float* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

// What the accumulators of a product begin with.
enum class Start : std::uint8_t { Zero, Scaled, AsIs };

// kM x kN vectors of c, at row m and column n, over the terms [k0, k1).
template <class V, int kM, int kN>
void product_tile(const Product& p,
                  std::int64_t m,
                  std::int64_t n,
                  std::int64_t k0,
                  std::int64_t k1,
                  Start start) {
  constexpr std::int64_t kWidth = sizeof(V) / sizeof(float);
  V acc[kM][kN];
  float* c = p.c + m * p.ldc + n;
#pragma GCC unroll 16
  for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kN; ++j) {
      if (start == Start::Zero) {
        acc[i][j] = V{};
      } else {
        acc[i][j] = load_as<V>(c + i * p.ldc + j * kWidth);
        if (start == Start::Scaled) acc[i][j] *= all_lanes<V>(p.factor[m + i]);
      }
    }
  }
  // Every third row of a has a pointer, hidden from the compiler, which would make one for each and
  // run out of registers: an instruction adds the stride once or twice for nothing.
  constexpr int kPointers = (kM + 2) / 3;
  const float* a[kPointers];
#pragma GCC unroll 8
  for (int i = 0; i < kPointers; ++i)
    a[i] = p.a + (m + 3 * i) * p.a_row + k0 * p.a_col;
  const float* b = p.b + k0 * p.ldb + n;
  const std::int64_t row = p.a_row;
  const std::int64_t col = p.a_col;
  for (std::int64_t left = k1 - k0; left > 0; --left, b += p.ldb) {
#pragma GCC unroll 8
    for (int i = 0; i < kPointers; ++i)
      __asm__("" : "+r"(a[i]));
    V row_b[kN];
#pragma GCC unroll 4
    for (int j = 0; j < kN; ++j)
      row_b[j] = load_as<V>(b + j * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kM; ++i) {
      const V value = all_lanes<V>(a[i / 3][i % 3 * row]);
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j)
        acc[i][j] = fused(value, row_b[j], acc[i][j]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kPointers; ++i)
      a[i] += col;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kN; ++j)
      __builtin_memcpy(c + i * p.ldc + j * kWidth, &acc[i][j], sizeof(V));
  }
}

// All rows from m on, kM at a time and what is left in smaller tiles.
template <class V, int kM, int kN>
void product_rows(const Product& p,
                  std::int64_t m,
                  std::int64_t n,
                  std::int64_t k0,
                  std::int64_t k1,
                  Start start) {
  for (; m + kM <= p.m; m += kM)
    product_tile<V, kM, kN>(p, m, n, k0, k1, start);
  if constexpr (kM > 1) {
    constexpr int kNext = kM == 6 ? 4 : kM / 2;
    if (m < p.m) product_rows<V, kNext, kN>(p, m, n, k0, k1, start);
  }
}

// kN vectors of columns. A long sum is cut so that its part of b stays in the first-level cache
// while all rows of a pass by.
template <class V, int kM, int kN>
std::int64_t product_columns(const Product& p, std::int64_t n) {
  constexpr std::int64_t kCut = 128;
  Start start = p.factor == nullptr ? Start::Zero : Start::Scaled;
  for (std::int64_t k = 0; k == 0 || k < p.k; k += kCut) {
    product_rows<V, kM, kN>(p, 0, n, k, k + kCut < p.k ? k + kCut : p.k, start);
    start = Start::AsIs;
  }
  return n + kN * static_cast<std::int64_t>(sizeof(V) / sizeof(float));
}

// Tiles: at least eight chains hide the latency of two units; beyond that as few loads per
// multiplication as the registers allow (of 32, 16 and 16).
inline void product(const Product& p) {
  std::int64_t n = 0;
#if GRAFT_VECTOR_BYTES == 64
  while (n + 64 <= p.n)
    n = product_columns<V16, 6, 4>(p, n);
  if (n + 48 <= p.n) n = product_columns<V16, 8, 3>(p, n);
  if (n + 32 <= p.n) n = product_columns<V16, 8, 2>(p, n);
  if (n + 16 <= p.n) n = product_columns<V16, 16, 1>(p, n);
  if (n + 8 <= p.n) n = product_columns<V8, 16, 1>(p, n);
  if (n + 4 <= p.n) n = product_columns<V4, 16, 1>(p, n);
#elif GRAFT_VECTOR_BYTES == 32
  while (n + 16 <= p.n)
    n = product_columns<V8, 6, 2>(p, n);
  if (n + 8 <= p.n) n = product_columns<V8, 8, 1>(p, n);
  if (n + 4 <= p.n) n = product_columns<V4, 8, 1>(p, n);
#else
  while (n + 8 <= p.n)
    n = product_columns<V4, 4, 2>(p, n);
  if (n + 4 <= p.n) n = product_columns<V4, 8, 1>(p, n);
#endif
  while (n < p.n)
    n = product_columns<float, 4, 1>(p, n);
}

}  // namespace
