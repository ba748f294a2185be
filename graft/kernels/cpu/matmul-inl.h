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

// Sixteen more columns of kX rows of x and kW rows of w, which are stored as From reads them and
// stand ldw bytes apart.
template <class From, int kX, int kW>
GRAFT_INLINE void multiply_add(Accumulators<kX, kW>& acc,
                               const float* x,
                               std::int64_t ldx,
                               const std::byte* w,
                               std::int64_t ldw) {
  constexpr std::int64_t kPartBytes = kPartElems * std::int64_t{sizeof(typename From::Code)};
#pragma GCC unroll 8
  for (int part = 0; part < kParts; ++part) {
    NativeF32 row_w[kW];
#pragma GCC unroll 8
    for (int c = 0; c < kW; ++c)
      row_w[c] = From::native(w + c * ldw + part * kPartBytes);
#pragma GCC unroll 8
    for (int r = 0; r < kX; ++r) {
      const NativeF32 row_x = load_native(x + r * ldx + part * kPartElems);
#pragma GCC unroll 8
      for (int c = 0; c < kW; ++c)
        acc.lanes[r][c][part] = fused(row_x, row_w[c], acc.lanes[r][c][part]);
    }
  }
}

// The last columns, padded with zeros.
template <class From, int kX, int kW>
GRAFT_INLINE void multiply_add_tail(Accumulators<kX, kW>& acc,
                                    const float* x,
                                    std::int64_t ldx,
                                    const std::byte* w,
                                    std::int64_t ldw,
                                    std::int64_t count) {
  using Code = typename From::Code;
  float tail_x[kX * kLanes] = {};
  Code tail_w[kW * kLanes] = {};
  for (int r = 0; r < kX; ++r) {
    for (std::int64_t i = 0; i < count; ++i)
      tail_x[std::int64_t{r} * kLanes + i] = x[r * ldx + i];
  }
  for (int c = 0; c < kW; ++c) {
    __builtin_memcpy(tail_w + c * kLanes, w + c * ldw,
                     static_cast<std::size_t>(count) * sizeof(Code));
  }
  multiply_add<From, kX, kW>(acc, tail_x, kLanes, reinterpret_cast<const std::byte*>(tail_w),
                             kLanes * std::int64_t{sizeof(Code)});
}

template <class From, int kX, int kW>
void matmul_tile(const float* x,
                 std::int64_t ldx,
                 const std::byte* w,
                 std::int64_t ldw,
                 std::int64_t cols,
                 float* y,
                 std::int64_t ldy) {
  constexpr std::int64_t kElemBytes = sizeof(typename From::Code);
  Accumulators<kX, kW> acc = {};
  std::int64_t i = 0;
  for (; i + kLanes <= cols; i += kLanes)
    multiply_add<From, kX, kW>(acc, x + i, ldx, w + i * kElemBytes, ldw);
  if (i < cols) {
    multiply_add_tail<From, kX, kW>(acc, x + i, ldx, w + i * kElemBytes, ldw, cols - i);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kX; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kW; ++c)
      y[r * ldy + c] = sum(join(acc.lanes[r][c]));
  }
}

// All rows of w with kX rows of x.
template <class From, int kX>
void matmul_rows(const float* x, std::int64_t ldx, StoredRows w, float* y, std::int64_t ldy) {
  std::int64_t c = 0;
  for (; c + kTileW <= w.rows; c += kTileW) {
    matmul_tile<From, kX, kTileW>(x, ldx, w.data + c * w.stride, w.stride, w.cols, y + c, ldy);
  }
  for (; c < w.rows; ++c)
    matmul_tile<From, kX, 1>(x, ldx, w.data + c * w.stride, w.stride, w.cols, y + c, ldy);
}

template <class From>
void matmul_stored(RowsF32 x, StoredRows w, float* y, std::int64_t ldy) {
  std::int64_t r = 0;
  for (; r + kTileX <= x.rows; r += kTileX)
    matmul_rows<From, kTileX>(x.data + r * x.stride, x.stride, w, y + r * ldy, ldy);
  for (; r < x.rows; ++r)
    matmul_rows<From, 1>(x.data + r * x.stride, x.stride, w, y + r * ldy, ldy);
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
