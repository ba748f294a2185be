// GEMM of full tiles (16 quantized rows) with AMX. Included by packed-inl.h when GRAFT_TILES is
// defined. The integer sums of a group are the same as with vectors and are added in the same
// order.

// Tiles 0 and 1: int32 sums [16 rows of x][16 outputs of a panel]. Tile 2: a group of 16 rows of x.
// Tiles 3 and 4: the codes of a group, one line of 64 bytes (panel_layout.h) per tile row.
struct TileConfiguration {
  explicit GRAFT_INLINE TileConfiguration(int words_of_group) {
    TileLayout layout;
    for (int tile = 0; tile < 5; ++tile) {
      layout.rows[tile] = static_cast<std::uint8_t>(tile >= 3 ? words_of_group : 16);
      layout.row_bytes[tile] = static_cast<std::uint16_t>(tile == 2 ? 4 * words_of_group : 64);
    }
    // The intrinsic of g++ 12 declares only the first bytes as its operand.
    __asm__ volatile("ldtilecfg %0" ::"m"(layout));
  }
  GRAFT_INLINE ~TileConfiguration() { _tile_release(); }
  TileConfiguration(const TileConfiguration&) = delete;
  TileConfiguration& operator=(const TileConfiguration&) = delete;
};

// Blocks whose tile products are buffered in the L1 cache before they are scaled and added.
inline constexpr int kProductBlocks = 4;

template <int kGroups, int kPanels>
struct TileProducts {
  alignas(64) std::int32_t of[kProductBlocks][kGroups][kPanels][16][16];
};

// of[group][panel][row][output] = integer products of one block.
template <int kGroups, int kPanels>
GRAFT_INLINE void multiply_block_in_tiles(const UnpackedPanel* panels,
                                          int block,
                                          const std::byte* x,
                                          std::int32_t (&of)[kGroups][kPanels][16][16]) {
  constexpr int kWords = kBlockWords / kGroups;
#pragma GCC unroll 2
  for (int g = 0; g < kGroups; ++g) {
    _tile_loadd(2, x + 4 * kWords * g, kBlockCols);
    _tile_loadd(3, panels[0].codes[block] + 64 * kWords * g, 64);
    _tile_zero(0);
    _tile_dpbsud(0, 2, 3);
    if constexpr (kPanels == 2) {
      _tile_loadd(4, panels[1].codes[block] + 64 * kWords * g, 64);
      _tile_zero(1);
      _tile_dpbsud(1, 2, 4);
      _tile_stored(1, of[g][1], 64);
    }
    _tile_stored(0, of[g][0], 64);
  }
}

// sums[16][kTilePanels][16] += kPanels unpacked panels times the 16 rows of a tile.
template <int kGroups, bool kMin, int kPanels>
void multiply_in_tiles(const UnpackedPanel* panels, const QuantizedTile& x, float* sums) {
  constexpr std::int64_t kBlockBytes = quantized_block_bytes(kTileRows, kGroups);
  constexpr std::int64_t kStride = kTilePanels * kPanelRows;
  TileProducts<kGroups, kPanels> products;
  for (int first = 0; first < x.num_blocks; first += kProductBlocks) {
    const int left = x.num_blocks - first;
    const int count = left < kProductBlocks ? left : kProductBlocks;
    const std::byte* blocks = x.blocks + first * kBlockBytes;
    for (int r = 0; r < count; ++r) {
      multiply_block_in_tiles<kGroups, kPanels>(panels, first + r, blocks + r * kBlockBytes,
                                                products.of[r]);
    }
    for (int p = 0; p < kPanels; ++p) {
      F32x16 totals[kTileRows];
#pragma GCC unroll 16
      for (int row = 0; row < kTileRows; ++row)
        totals[row] = load(sums + row * kStride + p * kPanelRows);
      for (int r = 0; r < count; ++r) {
        const QuantizedBlock x_block(blocks + r * kBlockBytes, kTileRows, 0);
#pragma GCC unroll 2
        for (int g = 0; g < kGroups; ++g) {
          const F32x16 scale = load(panels[p].scales[first + r][g]);
          const F32x16 min = kMin ? load(panels[p].mins[first + r][g]) : F32x16(0.0F);
#pragma GCC unroll 16
          for (int row = 0; row < kTileRows; ++row) {
            const auto* at = reinterpret_cast<const std::byte*>(products.of[r][g][p][row]);
            Words words = load_words(at);
            if constexpr (!kMin) words = add_words(words, load_i32(x_block.correction(row, g)));
            totals[row] = add_group<kMin>(totals[row], words, scale, min, x_block, row, g);
          }
        }
      }
#pragma GCC unroll 16
      for (int row = 0; row < kTileRows; ++row)
        store(sums + row * kStride + p * kPanelRows, totals[row]);
    }
  }
}
