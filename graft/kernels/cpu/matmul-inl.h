// Dot products in register tiles, fused as in product-inl.h. See graft/quant/simd-inl.h for the
// rules of these files: included inside an instruction-set region, after rows-inl.h.

namespace {

// Registers that one output's 16 lanes take, and the outputs of a tile: as many accumulators as fit
// beside one row of x and one of w (of 32, 16 and 16 registers), the shape nearest to a square,
// since a tile of a x b outputs reads a + b rows.
inline constexpr int kParts = kLanes / kNativeLanes;
inline constexpr std::int64_t kPartElems = kNativeLanes;
#if GRAFT_VECTOR_BYTES == 64
inline constexpr int kTileX = 4;
inline constexpr int kTileW = 6;
#elif GRAFT_VECTOR_BYTES == 32
inline constexpr int kTileX = 2;
inline constexpr int kTileW = 3;
#else
inline constexpr int kTileX = 1;
inline constexpr int kTileW = 3;
#endif

template <int kCount = kLanes>
GRAFT_INLINE F32<kCount> join(const NativeF32* parts) {
  if constexpr (kCount == kNativeLanes) {
    return {parts[0]};
  } else {
    return {join<kCount / 2>(parts), join<kCount / 2>(parts + kCount / 2 / kNativeLanes)};
  }
}

template <int kX, int kW>
struct Accumulators {
  NativeF32 lanes[kX][kW][kParts];
};

// What the values that From reads are multiplied with, per row of w: their scale, for the columns
// that share it. One value each, or none.
template <class From, int kW>
struct Factors {
  float of[kW];

  GRAFT_INLINE void load(const StoredRows& w, std::int64_t first, std::int64_t tile) {
#pragma GCC unroll 8
    for (int c = 0; c < kW; ++c)
      of[c] = w.scales[first + c][tile] * From::kUnit;
  }
};

template <class From, int kW>
requires(!From::kScaled) struct Factors<From, kW> {
  GRAFT_INLINE void load(const StoredRows& /*w*/, std::int64_t /*first*/, std::int64_t /*tile*/) {}
};

// Columns that are read at once.
template <class From>
inline constexpr int kStepElems =
    From::kNatives* kNativeLanes > kLanes ? From::kNatives* kNativeLanes : kLanes;

template <class From, int kW>
GRAFT_INLINE void load_row(const std::byte* from,
                           const Factors<From, kW>& factors,
                           int c,
                           NativeF32* out) {
  if constexpr (From::kScaled) {
    From::natives(from, out);
#pragma GCC unroll 2
    for (int i = 0; i < From::kNatives; ++i)
      out[i] *= all_lanes<NativeF32>(factors.of[c]);
  } else {
    *out = From::native(from);
  }
}

// A step's columns of kX rows of x and kW rows of w, which are stored as From reads them and stand
// ldw bytes apart.
template <class From, int kX, int kW>
GRAFT_INLINE void multiply_add(Accumulators<kX, kW>& acc,
                               const float* x,
                               std::int64_t ldx,
                               const std::byte* w,
                               std::int64_t ldw,
                               const Factors<From, kW>& factors) {
  constexpr std::int64_t kElemBytes = sizeof(typename From::Code);
  constexpr int kNatives = From::kNatives;
#pragma GCC unroll 8
  for (int part = 0; part < kStepElems<From> / kNativeLanes; part += kNatives) {
#pragma GCC unroll 8
    for (int c = 0; c < kW; ++c) {
      NativeF32 row_w[kNatives];
      load_row<From, kW>(w + c * ldw + part * kPartElems * kElemBytes, factors, c, row_w);
#pragma GCC unroll 2
      for (int i = 0; i < kNatives; ++i) {
#pragma GCC unroll 8
        for (int r = 0; r < kX; ++r) {
          NativeF32& lanes = acc.lanes[r][c][(part + i) % kParts];
          lanes = mul_add(load_native(x + r * ldx + (part + i) * kPartElems), row_w[i], lanes);
        }
      }
    }
  }
}

// The last columns, fewer than a step: sixteen at a time as floats, padded with zeros.
template <class From, int kX, int kW>
GRAFT_INLINE void multiply_add_tail(Accumulators<kX, kW>& acc,
                                    const float* x,
                                    std::int64_t ldx,
                                    const std::byte* w,
                                    std::int64_t ldw,
                                    std::int64_t count,
                                    const Factors<From, kW>& factors) {
  using Code = typename From::Code;
  for (std::int64_t begin = 0; begin < count; begin += kLanes) {
    const std::int64_t num = count - begin < kLanes ? count - begin : kLanes;
    float tail_x[kX * kLanes] = {};
    float tail_w[kW * kLanes] = {};
    for (int r = 0; r < kX; ++r) {
      for (std::int64_t i = 0; i < num; ++i)
        tail_x[std::int64_t{r} * kLanes + i] = x[r * ldx + begin + i];
    }
    for (int c = 0; c < kW; ++c) {
      for (std::int64_t i = 0; i < num; ++i) {
        Code code;
        __builtin_memcpy(&code, w + c * ldw + (begin + i) * std::int64_t{sizeof(code)},
                         sizeof(code));
        float value = From::one(code);
        if constexpr (From::kScaled) value *= factors.of[c];
        tail_w[std::int64_t{c} * kLanes + i] = value;
      }
    }
    multiply_add<FromF32, kX, kW>(acc, tail_x, kLanes, reinterpret_cast<const std::byte*>(tail_w),
                                  kLanes * std::int64_t{sizeof(float)}, {});
  }
}

// Rows [first, first + kW) of w with kX rows of x.
template <class From, int kX, int kW>
void matmul_tile(const float* x,
                 std::int64_t ldx,
                 const StoredRows& w,
                 std::int64_t first,
                 float* y,
                 std::int64_t ldy) {
  constexpr std::int64_t kElemBytes = sizeof(typename From::Code);
  const std::byte* rows = w.data + first * w.stride;
  const std::int64_t scaled_alike = From::kScaled ? w.scaled_alike : w.cols;
  Accumulators<kX, kW> acc = {};
  for (std::int64_t begin = 0, tile = 0; begin < w.cols; begin += scaled_alike, ++tile) {
    const std::int64_t end = begin + scaled_alike < w.cols ? begin + scaled_alike : w.cols;
    Factors<From, kW> factors;
    factors.load(w, first, tile);
    std::int64_t i = begin;
    for (; i + kStepElems<From> <= end; i += kStepElems<From>)
      multiply_add<From, kX, kW>(acc, x + i, ldx, rows + i * kElemBytes, w.stride, factors);
    if (i < end) {
      multiply_add_tail<From, kX, kW>(acc, x + i, ldx, rows + i * kElemBytes, w.stride, end - i,
                                      factors);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kX; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kW; ++c)
      y[r * ldy + first + c] = sum(join(acc.lanes[r][c]));
  }
}

// All rows of w with kX rows of x.
template <class From, int kX>
void matmul_rows(const float* x, std::int64_t ldx, StoredRows w, float* y, std::int64_t ldy) {
  std::int64_t c = 0;
  for (; c + kTileW <= w.rows; c += kTileW)
    matmul_tile<From, kX, kTileW>(x, ldx, w, c, y, ldy);
  for (; c < w.rows; ++c)
    matmul_tile<From, kX, 1>(x, ldx, w, c, y, ldy);
}

// kX rows of x at a time, and what is left in one piece.
template <class From, int kX = kTileX>
void matmul_stored(RowsF32 x, StoredRows w, float* y, std::int64_t ldy) {
  for (; x.rows >= kX; x.rows -= kX, x.data += kX * x.stride, y += kX * ldy)
    matmul_rows<From, kX>(x.data, x.stride, w, y, ldy);
  if constexpr (kX > 1) {
    if (x.rows > 0) matmul_stored<From, kX - 1>(x, w, y, ldy);
  }
}

inline void matmul(RowsF32 x, RowsF32 w, std::int64_t cols, float* y, std::int64_t ldy) {
  constexpr std::int64_t kElemBytes = sizeof(float);
  const StoredRows rows = {.data = reinterpret_cast<const std::byte*>(w.data),
                           .rows = w.rows,
                           .cols = cols,
                           .stride = w.stride * kElemBytes};
  matmul_stored<FromF32>(x, rows, y, ldy);
}

}  // namespace
