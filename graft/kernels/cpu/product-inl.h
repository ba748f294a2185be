// c = factor c + a b, where every element is one chain of multiply-adds with k ascending: the bits
// depend on neither the register width nor the other rows. Unlike the other kernels it uses FMA
// where available: twice the speed, and AVX2, AVX-512 and NEON still agree bit for bit; the
// baseline may differ in the last bits. See graft/quant/simd-inl.h for the rules of these files:
// included inside an instruction-set region, after simd-inl.h.

namespace {

template <class V>
GRAFT_INLINE V all_lanes(float value) {
  return value - V{};  // a broadcast; value + V{} would not fold, since -0 + 0 is +0
}

template <class V>
GRAFT_INLINE V load_as(const float* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

GRAFT_INLINE NativeF32 load_native(const float* from) {
  NativeF32 v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

// Initial value of the accumulators: 0, factor * c, or c.
enum class Start : std::uint8_t { Zero, Scaled, AsIs };

// A register tile of kM rows x kN vectors of c at row m and column n, over k in [k0, k1).
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
  // One pointer per three rows of a, hidden from the compiler, which would otherwise keep one per
  // row and run out of registers: addressing modes add the stride once or twice for free.
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
        acc[i][j] = mul_add(value, row_b[j], acc[i][j]);
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

// All rows from m on, kM at a time and the rest in smaller tiles.
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

// kN vectors of columns. k is processed in chunks so that the chunk of b stays in the L1 cache
// while all rows of a use it. Returns the next column.
template <class V, int kM, int kN>
std::int64_t product_columns(const Product& p, std::int64_t n) {
  constexpr std::int64_t kChunk = 128;
  Start start = p.factor == nullptr ? Start::Zero : Start::Scaled;
  for (std::int64_t k = 0; k == 0 || k < p.k; k += kChunk) {
    product_rows<V, kM, kN>(p, 0, n, k, k + kChunk < p.k ? k + kChunk : p.k, start);
    start = Start::AsIs;
  }
  return n + kN * static_cast<std::int64_t>(sizeof(V) / sizeof(float));
}

#if GRAFT_VECTOR_BYTES == 64
// With only 16 columns every FMA needs its own broadcast, and the CPU does one broadcast per cycle.
// So rows of a are interleaved in pairs and each column is duplicated in two lanes: one broadcast
// of two values serves two FMAs. The order of each sum is unchanged.
inline constexpr int kPairs = 8;  // row pairs per tile

// Index of the pair of column j after two rows were interleaved into a low and a high vector.
constexpr int pair_index(int j) {
  return j / 4 * 2 + j % 2 + (j % 4 < 2 ? 0 : 8);
}

GRAFT_INLINE void store_interleaved(V16 x, V16 y, float* to) {
  const V16 low =
      __builtin_shufflevector(x, y, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  const V16 high =
      __builtin_shufflevector(x, y, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  __builtin_memcpy(to, &low, sizeof(low));
  __builtin_memcpy(to + kLanes, &high, sizeof(high));
}

GRAFT_INLINE void store_row_pair(V16 v, V16 w, float* first, float* second) {
  const V16 even =
      __builtin_shufflevector(v, w, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const V16 odd =
      __builtin_shufflevector(v, w, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  __builtin_memcpy(first, &even, sizeof(even));
  __builtin_memcpy(second, &odd, sizeof(odd));
}

GRAFT_INLINE V16 broadcast_pair(const float* pair) {
  typedef double V8Double __attribute__((vector_size(64)));  // NOLINT
  double both = 0;
  __builtin_memcpy(&both, pair, sizeof(both));
  return reinterpret_cast<V16>(both - V8Double{});
}

void product_pairs_tile(const Product& p, std::int64_t m) {
  V16 acc[kPairs][2] = {};
  alignas(64) float pairs[kPairs][2 * kLanes];
  const float* b = p.b;
  for (std::int64_t k = 0; k < p.k; k += kLanes) {
    const float* a = p.a + m * p.a_row + k;
#pragma GCC unroll 8
    for (int i = 0; i < kPairs; ++i, a += 2 * p.a_row)
      store_interleaved(load_as<V16>(a), load_as<V16>(a + p.a_row), pairs[i]);
    // Otherwise the compiler extracts the values from the registers with shuffles.
    __asm__("" : "+m"(pairs));
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j, b += p.ldb) {
      const V16 v = load_as<V16>(b);
      const V16 low = __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
      const V16 high =
          __builtin_shufflevector(v, v, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
#pragma GCC unroll 8
      for (int i = 0; i < kPairs; ++i) {
        const V16 value = broadcast_pair(pairs[i] + 2 * pair_index(j));
        acc[i][0] = mul_add(value, low, acc[i][0]);
        acc[i][1] = mul_add(value, high, acc[i][1]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kPairs; ++i) {
    float* const c = p.c + (m + std::int64_t{2} * i) * p.ldc;
    store_row_pair(acc[i][0], acc[i][1], c, c + p.ldc);
  }
}

// Computes all full tiles of rows; returns the product of the remaining rows.
Product product_pairs(Product p) {
  std::int64_t m = 0;
  for (; m + 2 * kPairs <= p.m; m += 2 * kPairs)
    product_pairs_tile(p, m);
  p.a += m * p.a_row;
  p.c += m * p.ldc;
  p.m -= m;
  return p;
}
#endif

// Tile shapes: at least eight independent chains hide the latency of two FMA units; beyond that as
// few loads per FMA as the registers allow (32, 16, 32 and 16).
inline void product(const Product& all) {
  Product p = all;
  std::int64_t n = 0;
#if GRAFT_VECTOR_BYTES == 64
  if (p.n == 16 && p.k % 16 == 0 && p.a_col == 1 && p.factor == nullptr) p = product_pairs(p);
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
#elif GRAFT_NEON
  while (n + 16 <= p.n)
    n = product_columns<V4, 4, 4>(p, n);
  if (n + 8 <= p.n) n = product_columns<V4, 8, 2>(p, n);
  if (n + 4 <= p.n) n = product_columns<V4, 16, 1>(p, n);
#else
  while (n + 8 <= p.n)
    n = product_columns<V4, 4, 2>(p, n);
  if (n + 4 <= p.n) n = product_columns<V4, 8, 1>(p, n);
#endif
  while (n < p.n)
    n = product_columns<float, 4, 1>(p, n);
}

}  // namespace
