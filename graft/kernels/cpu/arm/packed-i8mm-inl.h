// GEMM of full tiles (4 quantized rows) with smmla, which multiplies two rows of x with two weight
// rows over eight columns. Included by packed-inl.h when GRAFT_I8MM is defined. The integer sums of
// a group are the same as with sdot and are added in the same order.

// Eight outputs: two row pairs of x by four pairs of weight rows. Each register holds the sums of
// (row 0, output 0), (row 0, output 1), (row 1, output 0), (row 1, output 1).
struct PairSums {
  int32x4_t of[2][4];
};

// Rows `row` and `row` + 1 of x, columns 8 i .. 8 i + 7.
GRAFT_INLINE int8x16_t load_row_pair(const QuantizedBlock& x, int row, int i) {
  const std::byte* from = x.bytes + kBlockCols * row + 8 * i;
  int8x8_t first;
  int8x8_t second;
  __builtin_memcpy(&first, from, sizeof(first));
  __builtin_memcpy(&second, from + kBlockCols, sizeof(second));
  return vcombine_s8(first, second);
}

// sums += columns 8 i .. 8 i + 7 of four rows of x times eight weight rows. `codes` points to word
// 2 i of the first of them.
template <bool kSigned>
GRAFT_INLINE void add_pair_products(PairSums& sums,
                                    const std::byte* codes,
                                    const QuantizedBlock& x,
                                    int i) {
  int8x16_t rows[4];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    // Words 2 i and 2 i + 1 of four weight rows: side by side they are eight columns of each.
    const uint32x4_t even = vreinterpretq_u32_u8(load_bytes(codes + 16 * half));
    const uint32x4_t odd = vreinterpretq_u32_u8(load_bytes(codes + 16 * half + 64));
    rows[2 * half] = signed_codes<kSigned>(vreinterpretq_u8_u32(vzip1q_u32(even, odd)));
    rows[2 * half + 1] = signed_codes<kSigned>(vreinterpretq_u8_u32(vzip2q_u32(even, odd)));
  }
#pragma GCC unroll 2
  for (int pair = 0; pair < 2; ++pair) {
    const int8x16_t two = load_row_pair(x, 2 * pair, i);
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w)
      sums.of[pair][w] = vmmlaq_s32(sums.of[pair][w], two, rows[w]);
  }
}

// Integer sums of row 0 .. 3 with eight outputs, as float.
GRAFT_INLINE F32<8> row_sums(const PairSums& sums, int row) {
  const int32x4_t(&of)[4] = sums.of[row / 2];
  F32<4> four[2];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const int64x2_t a = vreinterpretq_s64_s32(of[2 * half]);
    const int64x2_t b = vreinterpretq_s64_s32(of[2 * half + 1]);
    const int64x2_t both = row % 2 == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b);
    four[half] = F32<4>(vcvtq_f32_s32(vreinterpretq_s32_s64(both)));
  }
  return {four[0], four[1]};
}

// sums[4][kTilePanels][16] += outputs kFirst .. kFirst + 7 of a panel times a tile of four rows.
template <int kGroups, bool kMin, bool kSigned, int kFirst>
GRAFT_INLINE void multiply_half_panel(const UnpackedPanel& panel,
                                      const QuantizedTile& x,
                                      float* sums) {
  constexpr int kSteps = kBlockWords / 2 / kGroups;  // of eight columns per group
  constexpr std::int64_t kStride = kTilePanels * kPanelRows;
  QuantizedBlock x_block(x.blocks, kTileRows, 0);
  F32<8> totals[kTileRows];
#pragma GCC unroll 4
  for (int row = 0; row < kTileRows; ++row)
    totals[row] = load<8>(sums + row * kStride + kFirst);
  for (int r = 0; r < x.num_blocks; ++r) {
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) {
      PairSums products;
#pragma GCC unroll 4
      for (int row = 0; row < kTileRows; row += 2) {
        int32x4_t start = vdupq_n_s32(0);
        if constexpr (!kMin && !kSigned) {
          start = vcombine_s32(vdup_n_s32(load_i32(x_block.correction(row, g))),
                               vdup_n_s32(load_i32(x_block.correction(row + 1, g))));
        }
#pragma GCC unroll 4
        for (int w = 0; w < 4; ++w)
          products.of[row / 2][w] = start;
      }
#pragma GCC unroll 4
      for (int i = g * kSteps; i < (g + 1) * kSteps; ++i)
        add_pair_products<kSigned>(products, panel.codes[r] + 128 * i + 4 * kFirst, x_block, i);
      const F32<8> scale = load<8>(panel.scales[r][g] + kFirst);
#pragma GCC unroll 4
      for (int row = 0; row < kTileRows; ++row) {
        totals[row] =
            mul_add(row_sums(products, row), scale * F32<8>(x_block.scale(row)), totals[row]);
        if constexpr (kMin) {
          totals[row] = mul_add(load<8>(panel.mins[r][g] + kFirst),
                                F32<8>(load_f32(x_block.correction(row, g))), totals[row]);
        }
      }
    }
    x_block.advance(quantized_block_bytes(kTileRows, kGroups));
  }
#pragma GCC unroll 4
  for (int row = 0; row < kTileRows; ++row)
    store(sums + row * kStride + kFirst, totals[row]);
}

// Eight outputs at a time: their sums fit into the registers.
template <int kGroups, bool kMin, bool kSigned>
void multiply_in_pairs(const UnpackedPanel& panel, const QuantizedTile& x, float* sums) {
  multiply_half_panel<kGroups, kMin, kSigned, 0>(panel, x, sums);
  multiply_half_panel<kGroups, kMin, kSigned, 8>(panel, x, sums);
}
