// The kernels of packed.h, compiled for the instruction set of the region this is included in:
// makes kAllPacked in an anonymous namespace. See graft/quant/simd-inl.h for the rules of these
// files. Before the region include graft/kernels/cpu/packed/packed.h and graft/quant/blocks.h, and
// define GRAFT_VECTOR_BYTES.

#include "graft/quant/simd-inl.h"
// Order matters: what follows uses what stands above.
#include "graft/kernels/cpu/packed/words-inl.h"
//
#include "graft/kernels/cpu/packed/unpack-inl.h"

namespace {

// A tile of the product of many rows: as many sums, in words and in floats, as fit into the
// registers beside one word of each panel and one of x.
#if GRAFT_VECTOR_BYTES == 64
inline constexpr int kRowsAtOnce = 6;
inline constexpr int kTilePanels = 2;
// Up to here it pays to unpack the codes anew for those.
inline constexpr int kFewRows = 12;
#else
inline constexpr int kRowsAtOnce = 2;
inline constexpr int kTilePanels = 1;
inline constexpr int kFewRows = 4;
#endif
// Rounded rows stand in tiles of so many: a tile register's, or those that are taken at once.
#ifdef GRAFT_TILES
inline constexpr int kTileRows = 16;
#else
inline constexpr int kTileRows = kRowsAtOnce;
#endif

GRAFT_INLINE std::int32_t load_i32(const std::byte* from) {
  std::int32_t value = 0;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

GRAFT_INLINE float load_f32(const std::byte* from) {
  return as_float(static_cast<std::uint32_t>(load_i32(from)));
}

// One run of a tile of rounded rows, seen from one of its rows on.
struct RoundedRun {
  const std::byte* bytes;
  const std::byte* scales;
  const std::byte* extras;
  std::int64_t group_bytes;  // from the extras of one group to those of the next

  GRAFT_INLINE RoundedRun(const std::byte* run, std::int64_t tile_rows, std::int64_t first)
      : bytes(run + kRunElems * first),
        scales(run + kRunElems * tile_rows + 4 * first),
        extras(run + (kRunElems + 4) * tile_rows + 4 * first),
        group_bytes(4 * tile_rows) {}

  GRAFT_INLINE void advance(std::int64_t run_bytes) {
    bytes += run_bytes;
    scales += run_bytes;
    extras += run_bytes;
  }
  GRAFT_INLINE std::int32_t word(int row, int i) const {
    return load_i32(bytes + kRunElems * row + 4 * i);
  }
  GRAFT_INLINE float scale(int row) const { return load_f32(scales + 4 * row); }
  // The number beside the scales: of a group of this run.
  GRAFT_INLINE const std::byte* extra(int row, int group) const {
    return extras + group * group_bytes + 4 * row;
  }
};

constexpr std::int64_t bytes_of_run(std::int64_t tile_rows, int num_groups) {
  return tile_rows * (kRunElems + 4 + 4 * num_groups);
}

// One group of one panel with a row: sums of the words, the start included.
template <bool kMin, bool kSigned>
GRAFT_INLINE Words start_of(const RoundedRun& x, int row, int group) {
  if constexpr (kMin || kSigned) return all_words(0);
  return all_words(load_i32(x.extra(row, group)));
}

// sum += words * scale * x's scale, then += min * minus x's sum, each rounded once.
template <bool kMin>
GRAFT_INLINE F32x16 add_group(
    F32x16 sum, Words words, F32x16 scale, F32x16 min, const RoundedRun& x, int row, int group) {
  sum = mul_add(to_floats(words), scale * F32x16(x.scale(row)), sum);
  if constexpr (kMin) sum = mul_add(min, F32x16(load_f32(x.extra(row, group))), sum);
  return sum;
}

// Some runs of a tile of rounded rows.
struct RoundedTile {
  const std::byte* runs;
  int num_runs;
  int num_rows;
};

// One panel with a few rows of a tile, from row `first` on: codes are used as they are unpacked.
template <PackedFormat kFormat, int kRows>
void gemv(const std::byte* panel, const RoundedTile& x, int first, float* y) {
  constexpr int kGroups = kGroupsOfRun<kFormat>;
  constexpr int kWords = kRunWords / kGroups;
  constexpr bool kMin = kFormat.has_min;
  constexpr bool kSigned = kTakenAsSigned<kFormat>;
  F32x16 sums[kRows];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
    sums[row] = 0.0F;
  RoundedRun of_x(x.runs, x.num_rows, first);
  const std::int64_t x_bytes = bytes_of_run(x.num_rows, kGroups);
  const int num_chunks = x.num_runs / static_cast<int>(chunk_elems(kFormat) / kRunElems);
  for (int c = 0; c < num_chunks; ++c, panel += chunk_bytes(kFormat)) {
    const ChunkScales<kFormat> scales(panel);
    const std::byte* run = panel + chunk_header_bytes(kFormat);
    for (int r = 0; r < chunk_elems(kFormat) / kRunElems; ++r, run += run_bytes(kFormat)) {
      prefetch_run<kFormat>(run);
      Words words[kRunWords];
      unpack_run<kFormat>(run, words);
#pragma GCC unroll 2
      for (int g = 0; g < kGroups; ++g) {
        const F32x16 scale = scales.scale(r * kGroups + g);
        const F32x16 min = kMin ? scales.min(r * kGroups + g) : F32x16(0.0F);
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) {
          Words sum = start_of<kMin, kSigned>(of_x, row, g);
#pragma GCC unroll 8
          for (int i = g * kWords; i < (g + 1) * kWords; ++i)
            sum = add_products<kSigned>(sum, words[i], of_x.word(row, i));
          sums[row] = add_group<kMin>(sums[row], sum, scale, min, of_x, row, g);
        }
      }
      of_x.advance(x_bytes);
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
    store(y + row * kPanelRows, sums[row]);
}

// sums[kRows][kTilePanels][16] += the runs of kPanels panels with kRows rows of a tile, from row
// `first` on.
template <int kGroups, bool kMin, bool kSigned, int kRows, int kPanels>
void multiply_tile(const UnpackedPanel* panels, const RoundedTile& x, int first, float* sums) {
  constexpr int kWords = kRunWords / kGroups;
  RoundedRun of_x(x.runs, x.num_rows, first);
  const std::int64_t run_bytes = bytes_of_run(x.num_rows, kGroups);
  F32x16 totals[kRows][kPanels];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p)
      totals[row][p] = load(sums + (row * kTilePanels + p) * kPanelRows);
  }
  for (int r = 0; r < x.num_runs; ++r, of_x.advance(run_bytes)) {
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) {
      Words words[kRows][kPanels];
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p)
          words[row][p] = start_of<kMin, kSigned>(of_x, row, g);
      }
#pragma GCC unroll 8
      for (int i = g * kWords; i < (g + 1) * kWords; ++i) {
        Words codes[kPanels];
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p)
          codes[p] = load_words(panels[p].codes[r] + 64 * i);
#pragma GCC unroll 8
        for (int row = 0; row < kRows; ++row) {
          const std::int32_t four = of_x.word(row, i);
#pragma GCC unroll 2
          for (int p = 0; p < kPanels; ++p)
            words[row][p] = add_products<kSigned>(words[row][p], codes[p], four);
        }
      }
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) {
        const F32x16 scale = load(panels[p].scales[r][g]);
        const F32x16 min = kMin ? load(panels[p].mins[r][g]) : F32x16(0.0F);
#pragma GCC unroll 8
        for (int row = 0; row < kRows; ++row) {
          totals[row][p] = add_group<kMin>(totals[row][p], words[row][p], scale, min, of_x, row, g);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p)
      store(sums + (row * kTilePanels + p) * kPanelRows, totals[row][p]);
  }
}

// Rows of a tile from `first` on: those that fit into the registers at once, and so on to the last.
template <int kGroups, bool kMin, bool kSigned, int kPanels, int kRows = kRowsAtOnce>
GRAFT_INLINE void multiply_rows_of_tile(const UnpackedPanel* panels,
                                        const RoundedTile& x,
                                        int first,
                                        float* sums) {
  constexpr std::int64_t kStride = kTilePanels * kPanelRows;
  for (; first + kRows <= x.num_rows; first += kRows, sums += kRows * kStride)
    multiply_tile<kGroups, kMin, kSigned, kRows, kPanels>(panels, x, first, sums);
  if constexpr (kRows > 1) {
    if (first < x.num_rows) {
      multiply_rows_of_tile<kGroups, kMin, kSigned, kPanels, kRows - 1>(panels, x, first, sums);
    }
  }
}

#ifdef GRAFT_TILES
#include "graft/kernels/cpu/packed/packed-tiles-inl.h"
#endif

GRAFT_INLINE void copy_outputs(const float* from,
                               std::int64_t from_stride,
                               std::int64_t num_rows,
                               std::int64_t num_outputs,
                               float* y,
                               std::int64_t ldy) {
  for (std::int64_t row = 0; row < num_rows; ++row) {
    __builtin_memcpy(y + row * ldy, from + row * from_stride,
                     static_cast<std::size_t>(num_outputs) * sizeof(float));
  }
}

// kPanels panels with up to kMaxRows rows.
template <PackedFormat kFormat, int kPanels>
void gemm(const std::byte* panel,
          std::int64_t num_outputs,
          std::int64_t cols,
          const std::byte* rounded,
          std::int64_t num_rows,
          float* y,
          std::int64_t ldy) {
  constexpr int kGroups = kGroupsOfRun<kFormat>;
  constexpr std::int64_t kStride = kTilePanels * kPanelRows;
#ifdef GRAFT_TILES
  const TileConfiguration configuration(8 / kGroups);
#endif
  UnpackedPanel unpacked[kPanels];
  alignas(64) float sums[kMaxRows * kStride];
  __builtin_memset(sums, 0, static_cast<std::size_t>(num_rows * kStride) * sizeof(float));
  const std::int64_t all_runs = cols / kRunElems;
  const std::int64_t row_bytes = rounded_row_bytes(kFormat, cols);
  for (std::int64_t first = 0; first < all_runs; first += kRunsAtOnce) {
    const std::int64_t left = all_runs - first;
    const int num_runs = static_cast<int>(left < kRunsAtOnce ? left : kRunsAtOnce);
    const std::int64_t chunk = first * kRunElems / chunk_elems(kFormat);
    for (int p = 0; p < kPanels; ++p) {
      unpack_panel<kFormat>(panel + p * panel_bytes(kFormat, cols) + chunk * chunk_bytes(kFormat),
                            num_runs, unpacked[p]);
    }
    for (std::int64_t row = 0; row < num_rows; row += kTileRows) {
      const std::int64_t rows_left = num_rows - row;
      const int tile = static_cast<int>(rows_left < kTileRows ? rows_left : kTileRows);
      const RoundedTile x = {
          .runs = rounded + row * row_bytes + first * bytes_of_run(tile, kGroups),
          .num_runs = num_runs,
          .num_rows = tile};
#ifdef GRAFT_TILES
      if (tile == kTileRows) {
        multiply_in_tiles<kGroups, kFormat.has_min, kPanels>(unpacked, x, sums + row * kStride);
        continue;
      }
#endif
      multiply_rows_of_tile<kGroups, kFormat.has_min, kTakenAsSigned<kFormat>, kPanels>(
          unpacked, x, 0, sums + row * kStride);
    }
  }
  copy_outputs(sums, kStride, num_rows, num_outputs, y, ldy);
}

// One panel with the rows of a tile, up to kRows at a time. y: [rows, 16]
template <PackedFormat kFormat, int kRows>
GRAFT_INLINE void gemv_of(const std::byte* panel, const RoundedTile& x, int first, float* y) {
  for (; first + kRows <= x.num_rows; first += kRows, y += kRows * kPanelRows)
    gemv<kFormat, kRows>(panel, x, first, y);
  if constexpr (kRows > 1) {
    if (first < x.num_rows) gemv_of<kFormat, kRows - 1>(panel, x, first, y);
  }
}

// One panel with rows in tiles of kTile, up to kAtOnce of them at a time. y: [rows, 16]
template <PackedFormat kFormat, int kTile, int kAtOnce>
void gemv_tiles(const std::byte* panel,
                std::int64_t cols,
                const std::byte* rounded,
                std::int64_t num_rows,
                float* y) {
  const std::int64_t row_bytes = rounded_row_bytes(kFormat, cols);
  for (std::int64_t row = 0; row < num_rows; row += kTile) {
    const std::int64_t left = num_rows - row;
    const RoundedTile x = {.runs = rounded + row * row_bytes,
                           .num_runs = static_cast<int>(cols / kRunElems),
                           .num_rows = static_cast<int>(left < kTile ? left : kTile)};
    gemv_of<kFormat, kAtOnce>(panel, x, 0, y + row * kPanelRows);
  }
}

// For rows in tiles of kTile. Up to kFew rows are multiplied as codes are unpacked, kAtOnce of them
// at a time; for more the codes are unpacked once, into memory.
template <DType kType, int kTile, int kAtOnce, std::int64_t kFew>
void multiply_packed(const std::byte* panels,
                     std::int64_t num_outputs,
                     std::int64_t cols,
                     const std::byte* rounded,
                     std::int64_t num_rows,
                     float* y,
                     std::int64_t ldy) {
  constexpr PackedFormat kFormat = packed_format(kType);
  const std::int64_t bytes = panel_bytes(kFormat, cols);
  std::int64_t out = 0;
  while (out < num_outputs) {
    const std::int64_t left = num_outputs - out;
    const std::byte* panel = panels + out / kPanelRows * bytes;
    if (num_rows <= kFew) {
      alignas(64) float sums[kFew * kPanelRows];
      gemv_tiles<kFormat, kTile, kAtOnce>(panel, cols, rounded, num_rows, sums);
      copy_outputs(sums, kPanelRows, num_rows, left < kPanelRows ? left : kPanelRows, y + out, ldy);
      out += kPanelRows;
    } else if constexpr (kFew < kMaxRows) {
      static_assert(kTile == kTileRows);
      if (left > kPanelRows && kTilePanels > 1) {
        constexpr std::int64_t kMax = kTilePanels * kPanelRows;
        gemm<kFormat, kTilePanels>(panel, left < kMax ? left : kMax, cols, rounded, num_rows,
                                   y + out, ldy);
        out += kMax;
      } else {
        gemm<kFormat, 1>(panel, left < kPanelRows ? left : kPanelRows, cols, rounded, num_rows,
                         y + out, ldy);
        out += kPanelRows;
      }
    }
  }
}

// Values to whole numbers in -127..127 of a step. Below this a run counts as zeros: the inverse of
// its step would not be finite.
inline constexpr float kSmallestRun = 1e-30F;

// Sixteen values, rounded to even, as signed bytes; returns their sum.
GRAFT_INLINE std::int32_t store_rounded(std::byte* to, F32x16 values) {
#if GRAFT_VECTOR_BYTES == 64
  const __m512i whole = _mm512_maskz_cvtps_epi32(0xffff, values.v);
  const __m128i bytes = _mm512_maskz_cvtsepi32_epi8(0xffff, whole);
  __builtin_memcpy(to, &bytes, sizeof(bytes));
  typedef std::int32_t I32x4 __attribute__((vector_size(16)));  // NOLINT
  const auto sums = reinterpret_cast<I32x4>(_mm_dpbusd_epi32(__m128i{}, _mm_set1_epi8(1), bytes));
  return sums[0] + sums[1] + (sums[2] + sums[3]);
#else
  float rounded[kLanes];
  store(rounded, round_even(values));
  std::int32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) {
    const auto whole = static_cast<std::int32_t>(rounded[i]);
    to[i] = static_cast<std::byte>(whole);
    sum += whole;
  }
  return sum;
#endif
}

GRAFT_INLINE bool are_finite(F32x16 a, F32x16 b) {
  const F32x16 infinity = __builtin_inff();
  return bits_of((vabs(a) < infinity) & (vabs(b) < infinity)) == 0xffff;
}

template <DType kType>
void round_rows(const float* const* rows,
                std::int64_t num_rows,
                std::int64_t cols,
                std::byte* rounded) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr int kGroups = kGroupsOfRun<kFormat>;
  constexpr int kOffset = kTakenAsSigned<kFormat> ? 0 : kFormat.offset;
  for (std::int64_t c = 0; c < cols; c += kRunElems) {
    std::byte* scales = rounded + kRunElems * num_rows;
    std::byte* extras = scales + 4 * num_rows;
    for (std::int64_t row = 0; row < num_rows; ++row) {
      F32x16 low = load(rows[row] + c);
      F32x16 high = load(rows[row] + c + kLanes);
      float largest = max_lane(vmax(vabs(low), vabs(high)));
      bool is_zero = largest < kSmallestRun;
      float scale = is_zero ? 0.0F : largest / 127.0F;
      if (!are_finite(low, high)) {  // the result is not a number either
        low = high = 0.0F;
        is_zero = true;
        scale = __builtin_nanf("");
      }
      const float inverse_scale = is_zero ? 0.0F : 127.0F / largest;
      std::int32_t sums[2];
      sums[0] = store_rounded(rounded + kRunElems * row, low * F32x16(inverse_scale));
      sums[1] = store_rounded(rounded + kRunElems * row + kLanes, high * F32x16(inverse_scale));
      __builtin_memcpy(scales + 4 * row, &scale, sizeof(scale));
      for (int g = 0; g < kGroups; ++g) {
        const std::int32_t sum = kGroups == 2 ? sums[g] : sums[0] + sums[1];
        const std::int32_t start = -kOffset * sum;
        const float scaled = -scale * static_cast<float>(sum);
        std::byte* extra = extras + 4 * (g * num_rows + row);
        if constexpr (kFormat.has_min) {
          __builtin_memcpy(extra, &scaled, sizeof(scaled));
        } else {
          __builtin_memcpy(extra, &start, sizeof(start));
        }
      }
    }
    rounded = extras + 4 * kGroups * num_rows;
  }
}

template <int kTile, int kAtOnce, std::int64_t kFew, std::size_t kRow = 0>
consteval void add_kernels(PackedTable& table) {
  if constexpr (kRow < kPackedTypes.size()) {
    constexpr DType kType = kPackedTypes[kRow].dtype;
    if constexpr (!packed_format(kType).as_bf16) {
      table.kernels[static_cast<std::size_t>(kType)] = {
          .round = round_rows<kType>, .multiply = multiply_packed<kType, kTile, kAtOnce, kFew>};
    }
    add_kernels<kTile, kAtOnce, kFew, kRow + 1>(table);
  }
}

template <int kTile, int kAtOnce, std::int64_t kFew>
consteval PackedTable make_packed() {
  PackedTable table{.tile_rows = kTile};
  add_kernels<kTile, kAtOnce, kFew>(table);
  return table;
}

constexpr PackedTable kAllPacked = make_packed<kTileRows, kRowsAtOnce, kFewRows>();

}  // namespace

#undef GRAFT_INLINE
#undef GRAFT_NOIPA
#undef GRAFT_VECTOR_BYTES
