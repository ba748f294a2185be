// Products of whole tiles of rounded rows in the tile registers of AMX. Included by packed-inl.h
// where GRAFT_TILES is defined. The sums of a group are the same whole numbers as elsewhere, and
// are added up in the same order.

// Tile 0 and 1: sums of 16 rows with the 16 outputs of a panel. Tile 2: a group of 16 rows of x.
// Tiles 3 and 4: the codes of a group, a word of the 16 outputs in each row.
struct TileConfiguration {
  explicit GRAFT_INLINE TileConfiguration(int words_of_group) {
    TileLayout layout;
    for (int tile = 0; tile < 5; ++tile) {
      layout.rows[tile] = static_cast<std::uint8_t>(tile >= 3 ? words_of_group : 16);
      layout.row_bytes[tile] = static_cast<std::uint16_t>(tile == 2 ? 4 * words_of_group : 64);
    }
    // The intrinsic of g++ 12 names only the first bytes as its operand.
    __asm__ volatile("ldtilecfg %0" ::"m"(layout));
  }
  GRAFT_INLINE ~TileConfiguration() { _tile_release(); }
  TileConfiguration(const TileConfiguration&) = delete;
  TileConfiguration& operator=(const TileConfiguration&) = delete;
};

// Runs whose products wait in the first-level cache while their sums stay in registers.
inline constexpr int kRunsOfProducts = 4;

template <int kGroups, int kPanels>
struct TileProducts {
  alignas(64) std::int32_t of[kRunsOfProducts][kGroups][kPanels][16][16];
};

// The products of one run.
template <int kGroups, int kPanels>
GRAFT_INLINE void multiply_run_in_tiles(const UnpackedPanel* panels,
                                        int run,
                                        const std::byte* x,
                                        std::int32_t (&of)[kGroups][kPanels][16][16]) {
  constexpr int kWords = kRunWords / kGroups;
#pragma GCC unroll 2
  for (int g = 0; g < kGroups; ++g) {
    _tile_loadd(2, x + 4 * kWords * g, kRunElems);
    _tile_loadd(3, panels[0].codes[run] + 64 * kWords * g, 64);
    _tile_zero(0);
    _tile_dpbsud(0, 2, 3);
    if constexpr (kPanels == 2) {
      _tile_loadd(4, panels[1].codes[run] + 64 * kWords * g, 64);
      _tile_zero(1);
      _tile_dpbsud(1, 2, 4);
      _tile_stored(1, of[g][1], 64);
    }
    _tile_stored(0, of[g][0], 64);
  }
}

// sums[16][kTilePanels][16] += the runs of kPanels panels with the 16 rows of a tile.
template <int kGroups, bool kMin, int kPanels>
void multiply_in_tiles(const UnpackedPanel* panels, const RoundedTile& x, float* sums) {
  constexpr std::int64_t kRunBytes = bytes_of_run(kTileRows, kGroups);
  constexpr std::int64_t kStride = kTilePanels * kPanelRows;
  TileProducts<kGroups, kPanels> products;
  for (int first = 0; first < x.num_runs; first += kRunsOfProducts) {
    const int left = x.num_runs - first;
    const int count = left < kRunsOfProducts ? left : kRunsOfProducts;
    const std::byte* runs = x.runs + first * kRunBytes;
    for (int r = 0; r < count; ++r) {
      multiply_run_in_tiles<kGroups, kPanels>(panels, first + r, runs + r * kRunBytes,
                                              products.of[r]);
    }
    for (int p = 0; p < kPanels; ++p) {
      F32x16 totals[kTileRows];
#pragma GCC unroll 16
      for (int row = 0; row < kTileRows; ++row)
        totals[row] = load(sums + row * kStride + p * kPanelRows);
      for (int r = 0; r < count; ++r) {
        const RoundedRun of_x(runs + r * kRunBytes, kTileRows, 0);
#pragma GCC unroll 2
        for (int g = 0; g < kGroups; ++g) {
          const F32x16 scale = load(panels[p].scales[first + r][g]);
          const F32x16 min = kMin ? load(panels[p].mins[first + r][g]) : F32x16(0.0F);
#pragma GCC unroll 16
          for (int row = 0; row < kTileRows; ++row) {
            const auto* at = reinterpret_cast<const std::byte*>(products.of[r][g][p][row]);
            Words words = load_words(at);
            if constexpr (!kMin) words = add_words(words, load_i32(of_x.extra(row, g)));
            totals[row] = add_group<kMin>(totals[row], words, scale, min, of_x, row, g);
          }
        }
      }
#pragma GCC unroll 16
      for (int row = 0; row < kTileRows; ++row)
        store(sums + row * kStride + p * kPanelRows, totals[row]);
    }
  }
}
