// GEMM of BF16, F16 and FP8 weights with bfmmla, for the formats of panel_layout.h with as_bf16. It
// multiplies two rows of x with two weight rows over four columns. Any number of rows uses the same
// instruction, and its four sums are independent: the result is batch-invariant. Columns are added
// in ascending order, two at a time, as bfdot does. FP8: the sum of every 128 columns starts from
// zero and is multiplied by its scale and added with one fused multiply-add.

#include <cstddef>
#include <cstdint>

#include <arm_neon.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/kernels/cpu/packed/packed.h"
#include "graft/tensor/dtype.h"

GRAFT_ISA_BEGIN(bf16)

#define GRAFT_INLINE inline __attribute__((always_inline))

namespace {

inline constexpr std::int64_t kTileRows = 4;  // as those of int8, at the level below
inline constexpr int kRowPairs = kTileRows / 2;
inline constexpr int kOutputPairs = kPanelRows / 2;
inline constexpr std::int64_t kGroupCols = 4;  // columns per instruction
inline constexpr std::int64_t kBlockBytes = kBlockCols * 2;

// Columns per pass over the rows of x: 512 of a panel are 16 KiB and stay in the L1 cache. FP8: the
// columns that share a scale.
template <PackedFormat kFormat>
inline constexpr std::int64_t kPassCols = kFormat.scale == PackedFormat::Scale::F32
                                              ? chunk_cols(kFormat)
                                              : 512;

// Two columns of the 16 outputs of a panel.
struct Line {
  uint32x4_t of[4];
};

// Four columns of the 16 outputs: outputs 2 p and 2 p + 1 in of[p].
struct Group {
  bfloat16x8_t of[kOutputPairs];
};

// Each register holds the sums of (row 0, output 0), (row 0, output 1), (row 1, output 0), (row 1,
// output 1) of a pair of rows and one of outputs.
struct TileSums {
  float32x4_t of[kRowPairs][kOutputPairs];
};

// Up to four rows of x at a column.
struct RowTile {
  const std::byte* bytes;  // [blocks][rows][32] bf16
  std::int64_t rows;
};

// Converts eight FP8 codes to bf16, exactly: moves the exponent and corrects its bias, takes
// subnormals from a table, and fixes up NaN and infinity.
template <DType kType>
GRAFT_INLINE uint16x8_t to_bf16(int8x8_t bytes) {
  constexpr bool kE4m3 = kType == DType::F8_E4M3;
  constexpr int kMan = kE4m3 ? 3 : 2;
  constexpr std::uint16_t kRebias = (kE4m3 ? 127 - 7 : 127 - 15) << 7;
  constexpr std::uint16_t kTop = kE4m3 ? 0x7f : 0x7c;  // first code that is not finite
  // Subnormals: multiples of 2^-9 (E4M3) and 2^-16 (E5M2).
  const uint16x8_t small =
      kE4m3 ? uint16x8_t{0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60}
            : uint16x8_t{0, 0x3780, 0x3800, 0x3840, 0, 0, 0, 0};
  const uint16x8_t codes = vreinterpretq_u16_s16(vmovl_s8(bytes));
  uint16x8_t bits = vandq_u16(vshlq_n_u16(codes, 7 - kMan), vdupq_n_u16(0x7f << (7 - kMan)));
  bits = vaddq_u16(bits, vdupq_n_u16(kRebias));
  const uint16x8_t mantissa = vandq_u16(codes, vdupq_n_u16((1 << kMan) - 1));
  // Bytes 2 m and 2 m + 1 of the table.
  const uint16x8_t at = vmlaq_n_u16(vdupq_n_u16(0x0100), mantissa, 0x0202);
  const uint8x16_t values = vqtbl1q_u8(vreinterpretq_u8_u16(small), vreinterpretq_u8_u16(at));
  const uint16x8_t is_normal = vtstq_u16(codes, vdupq_n_u16(0x80 - (1 << kMan)));
  bits = vbslq_u16(is_normal, bits, vreinterpretq_u16_u8(values));
  const uint16x8_t is_top = vcgeq_u16(bits, vdupq_n_u16((kTop << (7 - kMan)) + kRebias));
  // NaN and infinity have an exponent of all ones.
  bits = vorrq_u16(bits, vandq_u16(is_top, vdupq_n_u16(0x7f80)));
  return vorrq_u16(bits, vandq_u16(codes, vdupq_n_u16(0x8000)));
}

// Line i after the header of a chunk.
template <DType kType>
GRAFT_INLINE Line load_line(const std::byte* codes, std::int64_t i) {
  Line line;
#pragma GCC unroll 4
  for (int quarter = 0; quarter < 4; ++quarter) {
    if constexpr (packed_format(kType).bits == 16) {
      __builtin_memcpy(&line.of[quarter], codes + 64 * i + 16 * quarter, sizeof(uint32x4_t));
    } else {
      int8x8_t bytes;
      __builtin_memcpy(&bytes, codes + 32 * i + 8 * quarter, sizeof(bytes));
      line.of[quarter] = vreinterpretq_u32_u16(to_bf16<kType>(bytes));
    }
  }
  return line;
}

// Puts the columns of a panel into the order of bfmmla.
template <DType kType>
void order_columns(const std::byte* codes, std::int64_t num_groups, Group* groups) {
  for (std::int64_t g = 0; g < num_groups; ++g) {
    const Line even = load_line<kType>(codes, 2 * g);
    const Line odd = load_line<kType>(codes, 2 * g + 1);
#pragma GCC unroll 4
    for (int quarter = 0; quarter < 4; ++quarter) {
      const uint32x4_t low = vzip1q_u32(even.of[quarter], odd.of[quarter]);
      const uint32x4_t high = vzip2q_u32(even.of[quarter], odd.of[quarter]);
      groups[g].of[2 * quarter] = vreinterpretq_bf16_u32(low);
      groups[g].of[2 * quarter + 1] = vreinterpretq_bf16_u32(high);
    }
  }
}

// Rows 2 pair and 2 pair + 1, columns 4 i .. 4 i + 3 of a block. A row without a second is taken
// twice.
GRAFT_INLINE bfloat16x8_t load_row_pair(const std::byte* block,
                                        int pair,
                                        int i,
                                        std::int64_t rows) {
  const std::byte* from = block + 2 * pair * kBlockBytes + 8 * i;
  uint16x4_t first;
  uint16x4_t second;
  __builtin_memcpy(&first, from, sizeof(first));
  __builtin_memcpy(&second, from + (2 * pair + 1 < rows ? kBlockBytes : 0), sizeof(second));
  return vreinterpretq_bf16_u16(vcombine_u16(first, second));
}

// sums += the columns of `num_groups` groups.
template <int kPairs>
GRAFT_INLINE void add_columns(const RowTile& x,
                              const Group* groups,
                              std::int64_t num_groups,
                              TileSums& sums) {
  constexpr int kBlockGroups = kBlockCols / kGroupCols;
  TileSums totals = sums;
  const std::byte* block = x.bytes;
  for (std::int64_t g = 0; g < num_groups; g += kBlockGroups, block += x.rows * kBlockBytes) {
    for (int i = 0; i < kBlockGroups; ++i) {
#pragma GCC unroll 2
      for (int pair = 0; pair < kPairs; ++pair) {
        const bfloat16x8_t rows = load_row_pair(block, pair, i, x.rows);
#pragma GCC unroll 8
        for (int out = 0; out < kOutputPairs; ++out)
          totals.of[pair][out] = vbfmmlaq_f32(totals.of[pair][out], rows, groups[g + i].of[out]);
      }
    }
  }
  sums = totals;
}

GRAFT_INLINE void add_columns(const RowTile& x,
                              const Group* groups,
                              std::int64_t num_groups,
                              TileSums& sums) {
  if (x.rows > 2) {
    add_columns<2>(x, groups, num_groups, sums);
  } else {
    add_columns<1>(x, groups, num_groups, sums);
  }
}

// sums += products * scales of the 16 outputs.
GRAFT_INLINE void add_scaled(const TileSums& products, const std::byte* scales, TileSums& sums) {
  for (int out = 0; out < kOutputPairs; ++out) {
    float32x2_t two;
    __builtin_memcpy(&two, scales + 8 * out, sizeof(two));
    const float32x4_t factors = vcombine_f32(two, two);
    for (int pair = 0; pair < kRowPairs; ++pair)
      sums.of[pair][out] = vfmaq_f32(sums.of[pair][out], products.of[pair][out], factors);
  }
}

// The sums of a tile into its rows of y.
void store_rows(
    const TileSums& sums, std::int64_t rows, std::int64_t num_outputs, float* y, std::int64_t ldy) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float outputs[kPanelRows];
    for (int out = 0; out < kOutputPairs; ++out) {
      const float32x4_t four = sums.of[row / 2][out];
      vst1_f32(outputs + 2 * out, row % 2 == 0 ? vget_low_f32(four) : vget_high_f32(four));
    }
    __builtin_memcpy(y + row * ldy, outputs, static_cast<std::size_t>(num_outputs) * sizeof(float));
  }
}

// One panel times up to kMaxGemmRows rows.
template <DType kType>
void multiply_panel(const std::byte* panel,
                    std::int64_t num_outputs,
                    std::int64_t cols,
                    const std::byte* converted,
                    std::int64_t num_rows,
                    float* y,
                    std::int64_t ldy) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr std::int64_t kMaxCols = kPassCols<kFormat>;
  TileSums sums[kMaxGemmRows / kTileRows];
  __builtin_memset(sums, 0, sizeof(sums));
  Group groups[kMaxCols / kGroupCols];
  for (std::int64_t first = 0; first < cols; first += kMaxCols) {
    const std::int64_t count = cols - first < kMaxCols ? cols - first : kMaxCols;
    const std::byte* chunk = panel + first / chunk_cols(kFormat) * chunk_bytes(kFormat);
    order_columns<kType>(chunk + chunk_header_bytes(kFormat), count / kGroupCols, groups);
    for (std::int64_t row = 0; row < num_rows; row += kTileRows) {
      const std::int64_t rows = num_rows - row < kTileRows ? num_rows - row : kTileRows;
      const RowTile x = {converted + 2 * (row * cols + first * rows), rows};
      if constexpr (kFormat.scale == PackedFormat::Scale::F32) {
        TileSums products;
        __builtin_memset(&products, 0, sizeof(products));
        add_columns(x, groups, count / kGroupCols, products);
        add_scaled(products, chunk, sums[row / kTileRows]);
      } else {
        add_columns(x, groups, count / kGroupCols, sums[row / kTileRows]);
      }
    }
  }
  for (std::int64_t row = 0; row < num_rows; row += kTileRows) {
    const std::int64_t rows = num_rows - row < kTileRows ? num_rows - row : kTileRows;
    store_rows(sums[row / kTileRows], rows, num_outputs, y + row * ldy, ldy);
  }
}

template <DType kType>
void multiply_bf16(const std::byte* panels,
                   std::int64_t num_outputs,
                   std::int64_t cols,
                   const std::byte* converted,
                   std::int64_t num_rows,
                   float* y,
                   std::int64_t ldy) {
  for (; num_outputs > 0; num_outputs -= kPanelRows, y += kPanelRows) {
    const std::int64_t count = num_outputs < kPanelRows ? num_outputs : kPanelRows;
    multiply_panel<kType>(panels, count, cols, converted, num_rows, y, ldy);
    panels += panel_bytes(packed_format(kType), cols);
  }
}

// converted: [blocks][rows][32] bf16, rounded to nearest, ties to even; NaN stays NaN.
void convert_to_bf16(const float* const* rows,
                     std::int64_t num_rows,
                     std::int64_t cols,
                     std::byte* converted) {
  for (std::int64_t c = 0; c < cols; c += kBlockCols) {
    for (std::int64_t row = 0; row < num_rows; ++row, converted += kBlockBytes) {
      for (std::int64_t i = 0; i < kBlockCols; i += 8) {
        const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(rows[row] + c + i));
        const bfloat16x8_t both = vcvtq_high_bf16_f32(low, vld1q_f32(rows[row] + c + i + 4));
        __builtin_memcpy(converted + 2 * i, &both, sizeof(both));
      }
    }
  }
}

template <std::size_t kRow = 0>
consteval void add_kernels(PackedTable& table) {
  if constexpr (kRow < kPackedTypes.size()) {
    constexpr DType kType = kPackedTypes[kRow].dtype;
    if constexpr (packed_format(kType).as_bf16) {
      table.kernels[static_cast<std::size_t>(kType)] = {.quantize = convert_to_bf16,
                                                        .multiply = multiply_bf16<kType>};
    }
    add_kernels<kRow + 1>(table);
  }
}

consteval PackedTable all_kernels() {
  PackedTable table = {.tile_rows = kTileRows};
  add_kernels(table);
  return table;
}

}  // namespace

constinit const PackedTable kFloats = all_kernels();

#undef GRAFT_INLINE

GRAFT_ISA_END
