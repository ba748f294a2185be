// The kernels of packed.h, compiled for the instruction set of the including region: defines
// kAllPacked in an anonymous namespace. See graft/quant/simd-inl.h for the rules of these files.
// Before the region include graft/kernels/cpu/packed/packed.h, unpacked_panel.h beside it and
// graft/quant/blocks.h, and define GRAFT_VECTOR_BYTES (and GRAFT_NEON);
// GRAFT_TILES selects AMX, GRAFT_DOTPROD and GRAFT_I8MM the instructions of ARM64.

#include "graft/quant/simd-inl.h"
// The order matters: later files use the earlier ones.
#if GRAFT_NEON
#include "graft/kernels/cpu/arm/words-neon-inl.h"
#else
#include "graft/kernels/cpu/packed/words-inl.h"
#endif
//
#include "graft/kernels/cpu/packed/unpack-inl.h"
//
#include "graft/kernels/cpu/packed/quantize-inl.h"

namespace {

// Register tile of the GEMM: kRowsAtOnce rows of x by kTilePanels panels. As many int32 and float
// sums as fit into the registers next to one line of codes per panel and one word of x.
#if GRAFT_VECTOR_BYTES == 64
inline constexpr int kRowsAtOnce = 6;
inline constexpr int kTilePanels = 2;
// Up to this many rows, unpacking the codes again for every row tile (GEMV) is faster than
// unpacking them once into memory (GEMM).
inline constexpr int kMaxGemvRows = 12;
#elif defined(GRAFT_I8MM)
inline constexpr int kRowsAtOnce = 4;
inline constexpr int kTilePanels = 1;
inline constexpr int kMaxGemvRows = 2;
#else
inline constexpr int kRowsAtOnce = 2;
inline constexpr int kTilePanels = 1;
inline constexpr int kMaxGemvRows = 4;
#endif
// Rows per tile of quantized x: the rows of an AMX tile register, or of a register tile.
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

// One block (32 columns) of a tile of quantized rows, starting at row `first`; layout in packed.h.
struct QuantizedBlock {
  const std::byte* bytes;
  const std::byte* scales;
  const std::byte* corrections;
  std::int64_t group_bytes;  // stride of the corrections of one group

  GRAFT_INLINE QuantizedBlock(const std::byte* block, std::int64_t tile_rows, std::int64_t first)
      : bytes(block + kBlockCols * first),
        scales(block + kBlockCols * tile_rows + 4 * first),
        corrections(block + (kBlockCols + 4) * tile_rows + 4 * first),
        group_bytes(4 * tile_rows) {}

  GRAFT_INLINE void advance(std::int64_t stride) {
    bytes += stride;
    scales += stride;
    corrections += stride;
  }
  // Columns 4 i .. 4 i + 3 of a row, as four int8.
  GRAFT_INLINE std::int32_t word(int row, int i) const {
    return load_i32(bytes + kBlockCols * row + 4 * i);
  }
  GRAFT_INLINE float scale(int row) const { return load_f32(scales + 4 * row); }
  // int32 or f32: see quantized rows in packed.h.
  GRAFT_INLINE const std::byte* correction(int row, int group) const {
    return corrections + group * group_bytes + 4 * row;
  }
};

constexpr std::int64_t quantized_block_bytes(std::int64_t tile_rows, int num_groups) {
  return tile_rows * (kBlockCols + 4 + 4 * num_groups);
}

// Initial value of the 16 integer sums of a group: -offset * sum(x), or 0 without an offset.
template <bool kMin, bool kSigned>
GRAFT_INLINE Words initial_sum(const QuantizedBlock& x, int row, int group) {
  if constexpr (kMin || kSigned) return all_words(0);
  return all_words(load_i32(x.correction(row, group)));
}

// sum += words * (scale * x scale), then sum += min * (-x scale * sum(x)): two fused multiply-adds.
template <bool kMin>
GRAFT_INLINE F32x16 add_group(F32x16 sum,
                              Words words,
                              F32x16 scale,
                              F32x16 min,
                              const QuantizedBlock& x,
                              int row,
                              int group) {
  sum = mul_add(to_floats(words), scale * F32x16(x.scale(row)), sum);
  if constexpr (kMin) sum = mul_add(min, F32x16(load_f32(x.correction(row, group))), sum);
  return sum;
}

// Consecutive blocks of a tile of quantized rows.
struct QuantizedTile {
  const std::byte* blocks;
  int num_blocks;
  int num_rows;
};

// y[kRows][16] = one panel times rows [first, first + kRows) of a tile; codes are multiplied as
// they are unpacked.
template <PackedFormat kFormat, int kRows>
void gemv(const std::byte* panel, const QuantizedTile& x, int first, float* y) {
  constexpr int kGroups = kBlockGroups<kFormat>;
  constexpr int kWords = kBlockWords / kGroups;
  constexpr bool kMin = kFormat.has_min;
  constexpr bool kSigned = kCodesSigned<kFormat>;
  F32x16 sums[kRows];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
    sums[row] = 0.0F;
  QuantizedBlock x_block(x.blocks, x.num_rows, first);
  const std::int64_t x_bytes = quantized_block_bytes(x.num_rows, kGroups);
  const int num_chunks = x.num_blocks / static_cast<int>(chunk_cols(kFormat) / kBlockCols);
  for (int c = 0; c < num_chunks; ++c, panel += chunk_bytes(kFormat)) {
    const ChunkScales<kFormat> scales(panel);
    const std::byte* block = panel + chunk_header_bytes(kFormat);
    for (int r = 0; r < chunk_cols(kFormat) / kBlockCols; ++r, block += block_code_bytes(kFormat)) {
      prefetch_block<kFormat>(block);
      Words words[kBlockWords];
      unpack_block<kFormat>(block, words);
#pragma GCC unroll 2
      for (int g = 0; g < kGroups; ++g) {
        const F32x16 scale = scales.scale(r * kGroups + g);
        const F32x16 min = kMin ? scales.min(r * kGroups + g) : F32x16(0.0F);
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) {
          Words sum = initial_sum<kMin, kSigned>(x_block, row, g);
#pragma GCC unroll 8
          for (int i = g * kWords; i < (g + 1) * kWords; ++i)
            sum = add_products<kSigned>(sum, words[i], x_block.word(row, i));
          sums[row] = add_group<kMin>(sums[row], sum, scale, min, x_block, row, g);
        }
      }
      x_block.advance(x_bytes);
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
    store(y + row * kPanelRows, sums[row]);
}

// sums[kRows][kTilePanels][16] += kPanels unpacked panels times rows [first, first + kRows) of a
// tile.
template <int kGroups, bool kMin, bool kSigned, int kRows, int kPanels>
void multiply_tile(const UnpackedPanel* panels, const QuantizedTile& x, int first, float* sums) {
  constexpr int kWords = kBlockWords / kGroups;
  QuantizedBlock x_block(x.blocks, x.num_rows, first);
  const std::int64_t x_bytes = quantized_block_bytes(x.num_rows, kGroups);
  F32x16 totals[kRows][kPanels];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p)
      totals[row][p] = load(sums + (row * kTilePanels + p) * kPanelRows);
  }
  for (int r = 0; r < x.num_blocks; ++r, x_block.advance(x_bytes)) {
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) {
      Words words[kRows][kPanels];
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p)
          words[row][p] = initial_sum<kMin, kSigned>(x_block, row, g);
      }
#pragma GCC unroll 8
      for (int i = g * kWords; i < (g + 1) * kWords; ++i) {
        Words codes[kPanels];
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p)
          codes[p] = load_words(panels[p].codes[r] + 64 * i);
#pragma GCC unroll 8
        for (int row = 0; row < kRows; ++row) {
          const std::int32_t four = x_block.word(row, i);
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
          totals[row][p] =
              add_group<kMin>(totals[row][p], words[row][p], scale, min, x_block, row, g);
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

// Rows [first, num_rows) of a tile, kRows at a time and the rest with smaller register tiles.
template <int kGroups, bool kMin, bool kSigned, int kPanels, int kRows = kRowsAtOnce>
GRAFT_INLINE void multiply_tile_rows(const UnpackedPanel* panels,
                                     const QuantizedTile& x,
                                     int first,
                                     float* sums) {
  constexpr std::int64_t kStride = kTilePanels * kPanelRows;
  for (; first + kRows <= x.num_rows; first += kRows, sums += kRows * kStride)
    multiply_tile<kGroups, kMin, kSigned, kRows, kPanels>(panels, x, first, sums);
  if constexpr (kRows > 1) {
    if (first < x.num_rows) {
      multiply_tile_rows<kGroups, kMin, kSigned, kPanels, kRows - 1>(panels, x, first, sums);
    }
  }
}

#ifdef GRAFT_TILES
#include "graft/kernels/cpu/x86/packed-tiles-inl.h"
#endif
#ifdef GRAFT_I8MM
#include "graft/kernels/cpu/arm/packed-i8mm-inl.h"
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

// The panels of a matrix and the quantized rows of a GEMM.
struct GemmOperands {
  UnpackPanel unpack;
  std::int64_t panel_bytes;
  std::int64_t chunk_bytes;
  std::int64_t chunk_blocks;
  std::int64_t num_blocks;  // of a row
  std::int64_t row_bytes;   // of a quantized row
  std::int64_t tile_rows;   // rows of a quantized tile
  const std::byte* quantized;
  std::int64_t num_rows;
};

// kPanels panels times up to kMaxGemmRows rows; codes are unpacked once into memory.
template <int kGroups, bool kMin, bool kSigned, int kPanels>
void gemm(const GemmOperands& operands,
          const std::byte* panel,
          std::int64_t num_outputs,
          float* y,
          std::int64_t ldy) {
  constexpr std::int64_t kStride = kTilePanels * kPanelRows;
  const std::int64_t num_rows = operands.num_rows;
#ifdef GRAFT_TILES
  const TileConfiguration configuration(8 / kGroups);
#endif
  UnpackedPanel unpacked[kPanels];
  alignas(64) float sums[kMaxGemmRows * kStride];
  __builtin_memset(sums, 0, static_cast<std::size_t>(num_rows * kStride) * sizeof(float));
  for (std::int64_t first = 0; first < operands.num_blocks; first += kBlocksAtOnce) {
    const std::int64_t left = operands.num_blocks - first;
    const int num_blocks = static_cast<int>(left < kBlocksAtOnce ? left : kBlocksAtOnce);
    const std::byte* chunk = panel + first / operands.chunk_blocks * operands.chunk_bytes;
    for (int p = 0; p < kPanels; ++p)
      operands.unpack(chunk + p * operands.panel_bytes, num_blocks, unpacked[p]);
    for (std::int64_t row = 0; row < num_rows; row += operands.tile_rows) {
      const std::int64_t rows_left = num_rows - row;
      const int tile =
          static_cast<int>(rows_left < operands.tile_rows ? rows_left : operands.tile_rows);
      const QuantizedTile x = {.blocks = operands.quantized + row * operands.row_bytes +
                                         first * quantized_block_bytes(tile, kGroups),
                               .num_blocks = num_blocks,
                               .num_rows = tile};
#ifdef GRAFT_TILES
      if (tile == kTileRows) {
        multiply_in_tiles<kGroups, kMin, kPanels>(unpacked, x, sums + row * kStride);
        continue;
      }
#endif
#ifdef GRAFT_I8MM
      if (tile == kTileRows) {
        multiply_in_pairs<kGroups, kMin, kSigned>(unpacked[0], x, sums + row * kStride);
        continue;
      }
#endif
      multiply_tile_rows<kGroups, kMin, kSigned, kPanels>(unpacked, x, 0, sums + row * kStride);
    }
  }
  copy_outputs(sums, kStride, num_rows, num_outputs, y, ldy);
}

// One panel times rows [first, num_rows) of a tile, up to kRows at a time. y: [rows, 16]
template <PackedFormat kFormat, int kRows>
GRAFT_INLINE void gemv_rows(const std::byte* panel, const QuantizedTile& x, int first, float* y) {
  for (; first + kRows <= x.num_rows; first += kRows, y += kRows * kPanelRows)
    gemv<kFormat, kRows>(panel, x, first, y);
  if constexpr (kRows > 1) {
    if (first < x.num_rows) gemv_rows<kFormat, kRows - 1>(panel, x, first, y);
  }
}

// One panel times rows in tiles of kTile, up to kAtOnce of them at a time. y: [rows, 16]
template <PackedFormat kFormat, int kTile, int kAtOnce>
void gemv_tiles(const std::byte* panel,
                std::int64_t cols,
                const std::byte* quantized,
                std::int64_t num_rows,
                float* y) {
  const std::int64_t row_bytes = quantized_row_bytes(kFormat, cols);
  for (std::int64_t row = 0; row < num_rows; row += kTile) {
    const std::int64_t left = num_rows - row;
    const QuantizedTile x = {.blocks = quantized + row * row_bytes,
                             .num_blocks = static_cast<int>(cols / kBlockCols),
                             .num_rows = static_cast<int>(left < kTile ? left : kTile)};
    gemv_rows<kFormat, kAtOnce>(panel, x, 0, y + row * kPanelRows);
  }
}

// Panels that the GEMM unpacks at once: several only pay off where many rows use them.
template <PackedFormat kFormat>
GRAFT_INLINE void gemm_panels(const GemmOperands& operands,
                              const std::byte* panels,
                              std::int64_t num_outputs,
                              float* y,
                              std::int64_t ldy) {
  constexpr int kGroups = kBlockGroups<kFormat>;
  constexpr bool kMin = kFormat.has_min;
  constexpr bool kSigned = kCodesSigned<kFormat>;
  constexpr std::int64_t kMax = kTilePanels * kPanelRows;
  std::int64_t out = 0;
  for (; out + kPanelRows < num_outputs && operands.num_rows > 1 && kTilePanels > 1; out += kMax) {
    const std::int64_t left = num_outputs - out;
    gemm<kGroups, kMin, kSigned, kTilePanels>(operands,
                                              panels + out / kPanelRows * operands.panel_bytes,
                                              left < kMax ? left : kMax, y + out, ldy);
  }
  for (; out < num_outputs; out += kPanelRows) {
    const std::int64_t left = num_outputs - out;
    gemm<kGroups, kMin, kSigned, 1>(operands, panels + out / kPanelRows * operands.panel_bytes,
                                    left < kPanelRows ? left : kPanelRows, y + out, ldy);
  }
}

// The function that unpacks panels of a type at this level.
template <DType kType>
GRAFT_INLINE UnpackPanel unpacker() {
  if constexpr (packed_format(kType).stored_words == 0) {
    return unpack_panel<packed_format(kType)>;
  } else {
#if GRAFT_VECTOR_BYTES == 64
    return avx512_stored_unpackers()[static_cast<std::size_t>(kType)];
#else
    return kStoredUnpackers[static_cast<std::size_t>(kType)];
#endif
  }
}

// PackedKernel::multiply for rows in tiles of kTile: a GEMV of kAtOnce rows at a time for up to
// kMaxGemv rows, else a GEMM. Types with stored words are always unpacked into memory.
template <DType kType, int kTile, int kAtOnce, std::int64_t kMaxGemv>
void multiply_packed(const std::byte* panels,
                     std::int64_t num_outputs,
                     std::int64_t cols,
                     const std::byte* quantized,
                     std::int64_t num_rows,
                     float* y,
                     std::int64_t ldy) {
  constexpr PackedFormat kFormat = packed_format(kType);
  const std::int64_t bytes = panel_bytes(kFormat, cols);
  if constexpr (kFormat.stored_words == 0) {
    if (num_rows <= kMaxGemv) {
      for (std::int64_t out = 0; out < num_outputs; out += kPanelRows, panels += bytes) {
        const std::int64_t left = num_outputs - out;
        alignas(64) float sums[kMaxGemv * kPanelRows];
        gemv_tiles<kFormat, kTile, kAtOnce>(panels, cols, quantized, num_rows, sums);
        copy_outputs(sums, kPanelRows, num_rows, left < kPanelRows ? left : kPanelRows, y + out,
                     ldy);
      }
      return;
    }
  }
  if constexpr (kMaxGemv < kMaxGemmRows || kFormat.stored_words != 0) {
    const GemmOperands operands = {.unpack = unpacker<kType>(),
                                   .panel_bytes = bytes,
                                   .chunk_bytes = chunk_bytes(kFormat),
                                   .chunk_blocks = chunk_cols(kFormat) / kBlockCols,
                                   .num_blocks = cols / kBlockCols,
                                   .row_bytes = quantized_row_bytes(kFormat, cols),
                                   .tile_rows = kTile,
                                   .quantized = quantized,
                                   .num_rows = num_rows};
    gemm_panels<kFormat>(operands, panels, num_outputs, y, ldy);
  }
}

template <int kTile, int kAtOnce, std::int64_t kMaxGemv, std::size_t kRow = 0>
consteval void add_kernels(PackedTable& table) {
  if constexpr (kRow < kPackedTypes.size()) {
    constexpr DType kType = kPackedTypes[kRow].dtype;
    if constexpr (!packed_format(kType).as_bf16) {
      table.kernels[static_cast<std::size_t>(kType)] = {
          .quantize = quantize_rows<kType>,
          .multiply = multiply_packed<kType, kTile, kAtOnce, kMaxGemv>};
    }
    add_kernels<kTile, kAtOnce, kMaxGemv, kRow + 1>(table);
  }
}

template <int kTile, int kAtOnce, std::int64_t kMaxGemv>
consteval PackedTable make_packed() {
  PackedTable table{.tile_rows = kTile};
  add_kernels<kTile, kAtOnce, kMaxGemv>(table);
  return table;
}

constexpr int kGemvRowsAtOnce = kRowsAtOnce < kMaxGemvRows ? kRowsAtOnce : kMaxGemvRows;
constexpr PackedTable kAllPacked = make_packed<kTileRows, kGemvRowsAtOnce, kMaxGemvRows>();

}  // namespace

#undef GRAFT_INLINE
#undef GRAFT_NEON
#undef GRAFT_SCALAR
#undef GRAFT_NOIPA
#undef GRAFT_DOTPROD
#undef GRAFT_I8MM
#undef GRAFT_VECTOR_BYTES
