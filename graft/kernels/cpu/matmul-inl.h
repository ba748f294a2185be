// y[r, c] = dot(x row r, w row c) in register tiles, with FMA as in product-inl.h. See
// graft/quant/simd-inl.h for the rules of these files: included inside an instruction-set region,
// after rows-inl.h.

namespace {

// Registers of the 16 lanes of one output, and the register tile: as many accumulators as fit next
// to one row of x and one of w (of 32, 16, 32 and 16 registers), nearly square, since a tile of a x
// b outputs reads a + b rows.
inline constexpr int kLaneRegisters = kLanes / kNativeLanes;
inline constexpr std::int64_t kRegisterElems = kNativeLanes;
#if GRAFT_VECTOR_BYTES == 64
inline constexpr int kTileX = 4;
inline constexpr int kTileW = 6;
#elif GRAFT_VECTOR_BYTES == 32
inline constexpr int kTileX = 2;
inline constexpr int kTileW = 3;
#elif GRAFT_NEON
inline constexpr int kTileX = 2;
inline constexpr int kTileW = 3;
#else
inline constexpr int kTileX = 1;
inline constexpr int kTileW = 3;
#endif

template <int kCount = kLanes>
GRAFT_INLINE F32<kCount> join(const NativeF32* registers) {
  if constexpr (kCount == kNativeLanes) {
    return {registers[0]};
  } else {
    return {join<kCount / 2>(registers), join<kCount / 2>(registers + kCount / 2 / kNativeLanes)};
  }
}

template <int kX, int kW>
struct Accumulators {
  NativeF32 lanes[kX][kW][kLaneRegisters];
};

// Per row of w the factor of the values read by From: the scale of the current columns. Empty for
// types without scales.
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

// Columns per step.
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

// acc += one step of columns of kX rows of x and kW rows of w; w is stored in the type of From,
// rows ldw bytes apart.
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
  for (int reg = 0; reg < kStepElems<From> / kNativeLanes; reg += kNatives) {
#pragma GCC unroll 8
    for (int c = 0; c < kW; ++c) {
      NativeF32 row_w[kNatives];
      load_row<From, kW>(w + c * ldw + reg * kRegisterElems * kElemBytes, factors, c, row_w);
#pragma GCC unroll 2
      for (int i = 0; i < kNatives; ++i) {
#pragma GCC unroll 8
        for (int r = 0; r < kX; ++r) {
          NativeF32& lanes = acc.lanes[r][c][(reg + i) % kLaneRegisters];
          lanes = mul_add(load_native(x + r * ldx + (reg + i) * kRegisterElems), row_w[i], lanes);
        }
      }
    }
  }
}

// The last `count` columns, fewer than a step: decoded to float and padded with zeros, sixteen at a
// time.
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

// kX rows of x times rows [first, first + kW) of w.
template <class From, int kX, int kW>
void matmul_tile(const float* x,
                 std::int64_t ldx,
                 const StoredRows& w,
                 std::int64_t first,
                 float* y,
                 std::int64_t ldy) {
  constexpr std::int64_t kElemBytes = sizeof(typename From::Code);
  const std::byte* rows = w.data + first * w.stride;
  const std::int64_t cols_per_scale = From::kScaled ? w.cols_per_scale : w.cols;
  Accumulators<kX, kW> acc = {};
  for (std::int64_t begin = 0, tile = 0; begin < w.cols; begin += cols_per_scale, ++tile) {
    const std::int64_t end = begin + cols_per_scale < w.cols ? begin + cols_per_scale : w.cols;
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

// kX rows of x times all rows of w.
template <class From, int kX>
void matmul_rows(const float* x, std::int64_t ldx, StoredRows w, float* y, std::int64_t ldy) {
  std::int64_t c = 0;
  for (; c + kTileW <= w.rows; c += kTileW)
    matmul_tile<From, kX, kTileW>(x, ldx, w, c, y, ldy);
  for (; c < w.rows; ++c)
    matmul_tile<From, kX, 1>(x, ldx, w, c, y, ldy);
}

// kX rows of x at a time, then the remaining rows in one smaller tile.
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
