// Dot products in register tiles. See graft/quant/simd-inl.h for the rules of these files: included
// inside an instruction-set region, after simd-inl.h.

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

GRAFT_INLINE NativeF32 load_native(const float* from) {
  NativeF32 v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

template <int kX, int kW>
struct Accumulators {
  NativeF32 lanes[kX][kW][kParts];
};

// Sixteen more columns of kX rows of x and kW rows of w.
template <int kX, int kW>
GRAFT_INLINE void multiply_add(
    Accumulators<kX, kW>& acc, const float* x, std::int64_t ldx, const float* w, std::int64_t ldw) {
#pragma GCC unroll 8
  for (int part = 0; part < kParts; ++part) {
    NativeF32 row_w[kW];
#pragma GCC unroll 8
    for (int c = 0; c < kW; ++c)
      row_w[c] = load_native(w + c * ldw + part * kPartElems);
#pragma GCC unroll 8
    for (int r = 0; r < kX; ++r) {
      const NativeF32 row_x = load_native(x + r * ldx + part * kPartElems);
#pragma GCC unroll 8
      for (int c = 0; c < kW; ++c)
        acc.lanes[r][c][part] += row_x * row_w[c];
    }
  }
}

// The last columns, padded with zeros.
template <int kX, int kW>
GRAFT_INLINE void multiply_add_tail(Accumulators<kX, kW>& acc,
                                    const float* x,
                                    std::int64_t ldx,
                                    const float* w,
                                    std::int64_t ldw,
                                    std::int64_t count) {
  float tail_x[kX * kLanes] = {};
  float tail_w[kW * kLanes] = {};
  for (int r = 0; r < kX; ++r) {
    for (std::int64_t i = 0; i < count; ++i)
      tail_x[std::int64_t{r} * kLanes + i] = x[r * ldx + i];
  }
  for (int c = 0; c < kW; ++c) {
    for (std::int64_t i = 0; i < count; ++i)
      tail_w[std::int64_t{c} * kLanes + i] = w[c * ldw + i];
  }
  multiply_add<kX, kW>(acc, tail_x, kLanes, tail_w, kLanes);
}

template <int kX, int kW>
void matmul_tile(const float* x,
                 std::int64_t ldx,
                 const float* w,
                 std::int64_t ldw,
                 std::int64_t cols,
                 float* y,
                 std::int64_t ldy) {
  Accumulators<kX, kW> acc = {};
  std::int64_t i = 0;
  for (; i + kLanes <= cols; i += kLanes)
    multiply_add<kX, kW>(acc, x + i, ldx, w + i, ldw);
  if (i < cols) multiply_add_tail<kX, kW>(acc, x + i, ldx, w + i, ldw, cols - i);
#pragma GCC unroll 8
  for (int r = 0; r < kX; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kW; ++c)
      y[r * ldy + c] = sum(join(acc.lanes[r][c]));
  }
}

// All rows of w with kX rows of x.
template <int kX>
void matmul_rows(
    const float* x, std::int64_t ldx, RowsF32 w, std::int64_t cols, float* y, std::int64_t ldy) {
  std::int64_t c = 0;
  for (; c + kTileW <= w.rows; c += kTileW)
    matmul_tile<kX, kTileW>(x, ldx, w.data + c * w.stride, w.stride, cols, y + c, ldy);
  for (; c < w.rows; ++c)
    matmul_tile<kX, 1>(x, ldx, w.data + c * w.stride, w.stride, cols, y + c, ldy);
}

inline void matmul(RowsF32 x, RowsF32 w, std::int64_t cols, float* y, std::int64_t ldy) {
  std::int64_t r = 0;
  for (; r + kTileX <= x.rows; r += kTileX)
    matmul_rows<kTileX>(x.data + r * x.stride, x.stride, w, cols, y + r * ldy, ldy);
  for (; r < x.rows; ++r)
    matmul_rows<1>(x.data + r * x.stride, x.stride, w, cols, y + r * ldy, ldy);
}

}  // namespace
