// GEMM of BF16, F16 and FP8 weights with AMX-BF16, for the formats of panel_layout.h with as_bf16.
// Included inside an instruction-set region with 64-byte vectors, after packed.h and tile_layout.h;
// the includer defines the tile operations (the test emulates them):
//   GRAFT_TILE_CONFIGURE(layout), GRAFT_TILE_RELEASE(),
//   GRAFT_TILE_LOAD(tile, from, stride), GRAFT_TILE_STORE(tile, to, stride): rows `stride` bytes
//   apart, GRAFT_TILE_DOT(sums, x, w): sums += x w, 32 columns of each row of x with pairs of w.
// Any number of rows uses the same instructions, and tile rows are independent: the result is
// batch-invariant. Columns are added in steps of 32 in ascending order, within a step in the order
// of tdpbf16ps. FP8: the sum of every 128 columns starts from zero and is multiplied by its scale
// and added with one fused multiply-add.

#define GRAFT_INLINE inline __attribute__((always_inline))

namespace {

inline constexpr std::int64_t kStepCols = 32;  // columns per tile row
inline constexpr std::int64_t kTileBytes = 1024;
inline constexpr std::int64_t kTileHeight = 16;
// Two tiles of rows by two panels: four tiles of sums and four of operands are all eight tile
// registers.
inline constexpr std::int64_t kBlockRows = 2 * kTileHeight;
inline constexpr std::int64_t kMaxPanels = 2;
inline constexpr std::int64_t kSumStride = kMaxPanels * kPanelRows;

// Steps per pass over the rows of x: two panels times 16 steps are 32 KiB and stay in the L1 cache.
// FP8: the steps that share a scale.
template <PackedFormat kFormat>
inline constexpr std::int64_t kStepsPerPass = kFormat.scale == PackedFormat::Scale::F32
                                                  ? chunk_cols(kFormat) / kStepCols
                                                  : 16;

// Prefetch distance of weights in bytes; see kPrefetchBytes in unpack-inl.h.
inline constexpr std::int64_t kBytesAhead = 4096;

GRAFT_INLINE void prefetch(const std::byte* from, std::int64_t num_bytes) {
  for (std::int64_t line = 0; line < num_bytes; line += 64)
    __builtin_prefetch(from + kBytesAhead + line);
}

// Tiles 0, 1: sums of the first 16 rows with panel 0, 1; tiles 2, 3: of the second 16 rows; 4, 5:
// the two row tiles of x; 6, 7: one step of panel 0, 1.
class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  GRAFT_INLINE ~Tiles() { GRAFT_TILE_RELEASE(); }

  GRAFT_INLINE void set_rows(std::int64_t first, std::int64_t second) {
    if (first == first_ && second == second_) return;
    first_ = first;
    second_ = second;
    TileLayout layout;
    for (int tile = 0; tile < 8; ++tile) {
      const bool is_first = tile < 2 || tile == 4;
      const std::int64_t rows = tile >= 6 ? kTileHeight : is_first ? first : second;
      layout.rows[tile] = static_cast<std::uint8_t>(rows);
      layout.row_bytes[tile] = rows == 0 ? 0 : 64;
    }
    GRAFT_TILE_CONFIGURE(layout);
  }

 private:
  std::int64_t first_ = 0;
  std::int64_t second_ = 0;
};

// Consecutive steps of up to two row tiles of x and two panels.
struct Steps {
  const std::byte* x[2] = {};     // [steps][rows][32] bf16
  std::int64_t x_stride[2] = {};  // bytes from step to step: 64 per row; 0: no rows
  const std::byte* w[kMaxPanels] = {};
  std::int64_t count = 0;
  bool is_read_ahead = false;  // prefetch w: it is read from memory
};

// sums[rows][kSumStride] += x w over the steps.
template <int kPanels, bool kSecond>
void add_steps(const Steps& steps, float* sums) {
  constexpr std::int64_t kStride = kSumStride * std::int64_t{sizeof(float)};
  constexpr std::int64_t kNextRows = kTileHeight * kSumStride;
  // The compiler does not know that tile loads read memory: finish earlier stores first.
  __asm__ volatile("" ::: "memory");
  GRAFT_TILE_LOAD(0, sums, kStride);
  if constexpr (kPanels == 2) GRAFT_TILE_LOAD(1, sums + kPanelRows, kStride);
  if constexpr (kSecond) GRAFT_TILE_LOAD(2, sums + kNextRows, kStride);
  if constexpr (kSecond && kPanels == 2) GRAFT_TILE_LOAD(3, sums + kNextRows + kPanelRows, kStride);
  for (std::int64_t step = 0; step < steps.count; ++step) {
    for (int p = 0; steps.is_read_ahead && p < kPanels; ++p)
      prefetch(steps.w[p] + step * kTileBytes, kTileBytes);
    GRAFT_TILE_LOAD(4, steps.x[0] + step * steps.x_stride[0], 64);
    GRAFT_TILE_LOAD(6, steps.w[0] + step * kTileBytes, 64);
    GRAFT_TILE_DOT(0, 4, 6);
    if constexpr (kPanels == 2) {
      GRAFT_TILE_LOAD(7, steps.w[1] + step * kTileBytes, 64);
      GRAFT_TILE_DOT(1, 4, 7);
    }
    if constexpr (kSecond) {
      GRAFT_TILE_LOAD(5, steps.x[1] + step * steps.x_stride[1], 64);
      GRAFT_TILE_DOT(2, 5, 6);
      if constexpr (kPanels == 2) GRAFT_TILE_DOT(3, 5, 7);
    }
  }
  GRAFT_TILE_STORE(0, sums, kStride);
  if constexpr (kPanels == 2) GRAFT_TILE_STORE(1, sums + kPanelRows, kStride);
  if constexpr (kSecond) GRAFT_TILE_STORE(2, sums + kNextRows, kStride);
  if constexpr (kSecond && kPanels == 2) {
    GRAFT_TILE_STORE(3, sums + kNextRows + kPanelRows, kStride);
  }
}

// Converts 32 FP8 codes to bf16, exactly: moves the exponent and corrects its bias, takes
// subnormals from a table, and fixes up NaN and infinity.
template <DType kType>
GRAFT_INLINE __m512i to_bf16(const std::byte* from) {
  constexpr bool kE4m3 = kType == DType::F8_E4M3;
  constexpr int kMan = kE4m3 ? 3 : 2;
  constexpr int kRebias = (kE4m3 ? 127 - 7 : 127 - 15) << 7;
  constexpr int kTop = kE4m3 ? 0x7f : 0x7c;  // first code that is not finite
  constexpr __mmask32 kAll = 0xffffffff;
  // Subnormals: multiples of 2^-9 (E4M3) and 2^-16 (E5M2).
  const __m512i small = kE4m3 ? _mm512_set4_epi64(0, 0, 0x3c603c403c203c00, 0x3bc03b803b000000)
                              : _mm512_set4_epi64(0, 0, 0, 0x3840380037800000);
  __m256i bytes;
  __builtin_memcpy(&bytes, from, sizeof(bytes));
  const __m512i codes = _mm512_maskz_cvtepi8_epi16(kAll, bytes);
  __m512i bits =
      _mm512_maskz_slli_epi16(kAll, codes, 7 - kMan) & _mm512_set1_epi16(0x7f << (7 - kMan));
  bits = _mm512_add_epi16(bits, _mm512_set1_epi16(kRebias));
  const __mmask32 is_small = _mm512_testn_epi16_mask(codes, _mm512_set1_epi16(0x80 - (1 << kMan)));
  bits = _mm512_mask_permutexvar_epi16(bits, is_small, codes, small);
  const __mmask32 is_top =
      _mm512_cmpge_epi16_mask(bits, _mm512_set1_epi16((kTop << (7 - kMan)) + kRebias));
  // NaN and infinity have an exponent of all ones.
  bits = _mm512_mask_mov_epi16(bits, is_top, bits | _mm512_set1_epi16(0x7f80));
  return bits | (codes & _mm512_set1_epi16(static_cast<std::int16_t>(0x8000)));
}

// Unpacks a chunk of FP8 codes into tiles of bf16.
template <DType kType>
GRAFT_INLINE void unpack_chunk(const std::byte* chunk, std::byte* tiles) {
  constexpr PackedFormat kFormat = packed_format(kType);
  prefetch(chunk, chunk_bytes(kFormat));
  const std::byte* codes = chunk + chunk_header_bytes(kFormat);
  for (std::int64_t i = 0; i < chunk_cols(kFormat) * kPanelRows; i += 32) {
    const __m512i halves = to_bf16<kType>(codes + i);
    __builtin_memcpy(tiles + 2 * i, &halves, sizeof(halves));
  }
}

// sums[row][out] += products[row][out] * scales[out] for the 16 outputs of a panel.
GRAFT_INLINE void add_scaled(const float* products,
                             const std::byte* scales,
                             std::int64_t num_rows,
                             float* sums) {
  const __m512 factors = _mm512_loadu_ps(scales);
  for (std::int64_t row = 0; row < num_rows; ++row, products += kSumStride, sums += kSumStride) {
    _mm512_storeu_ps(sums,
                     _mm512_fmadd_ps(_mm512_loadu_ps(products), factors, _mm512_loadu_ps(sums)));
  }
}

template <int kPanels>
GRAFT_INLINE void add_steps(const Steps& steps, float* sums) {
  if (steps.x_stride[1] == 0) {
    add_steps<kPanels, false>(steps, sums);
  } else {
    add_steps<kPanels, true>(steps, sums);
  }
}

// kPanels panels times up to kMaxGemmRows rows.
template <DType kType, int kPanels>
void multiply_panels(const std::byte* panel,
                     std::int64_t num_outputs,
                     std::int64_t cols,
                     const std::byte* converted,
                     std::int64_t num_rows,
                     float* y,
                     std::int64_t ldy) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr std::int64_t kMaxSteps = kStepsPerPass<kFormat>;
  constexpr bool kScaled = kFormat.scale == PackedFormat::Scale::F32;
  Tiles tiles;
  alignas(64) float sums[kMaxGemmRows * kSumStride];
  __builtin_memset(sums, 0, static_cast<std::size_t>(num_rows * kSumStride) * sizeof(float));
  alignas(64) std::byte unpacked[kPanels][kScaled ? kMaxSteps * kTileBytes : 1];
  const std::int64_t num_steps = cols / kStepCols;
  for (std::int64_t first = 0; first < num_steps; first += kMaxSteps) {
    const std::int64_t left = num_steps - first;
    Steps steps = {.count = left < kMaxSteps ? left : kMaxSteps};
    const std::byte* chunks[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      chunks[p] = panel + p * panel_bytes(kFormat, cols) +
                  first * kStepCols / chunk_cols(kFormat) * chunk_bytes(kFormat);
      steps.w[p] = kScaled ? unpacked[p] : chunks[p];
      if constexpr (kScaled) unpack_chunk<kType>(chunks[p], unpacked[p]);
    }
    for (std::int64_t row = 0; row < num_rows; row += kBlockRows) {
      std::int64_t rows[2];
      for (int i = 0; i < 2; ++i) {
        const std::int64_t begin = row + i * kTileHeight;
        const std::int64_t rows_left = num_rows > begin ? num_rows - begin : 0;
        rows[i] = rows_left < kTileHeight ? rows_left : kTileHeight;
        steps.x_stride[i] = 64 * rows[i];
        steps.x[i] = converted + begin * quantized_row_bytes(kFormat, cols) + first * 64 * rows[i];
      }
      steps.is_read_ahead = !kScaled && row == 0;
      tiles.set_rows(rows[0], rows[1]);
      float* const block = sums + row * kSumStride;
      if constexpr (kScaled) {
        alignas(64) float products[kBlockRows * kSumStride] = {};
        add_steps<kPanels>(steps, products);
        for (int p = 0; p < kPanels; ++p) {
          add_scaled(products + p * kPanelRows, chunks[p], rows[0] + rows[1],
                     block + p * kPanelRows);
        }
      } else {
        add_steps<kPanels>(steps, block);
      }
    }
  }
  for (std::int64_t row = 0; row < num_rows; ++row) {
    __builtin_memcpy(y + row * ldy, sums + row * kSumStride,
                     static_cast<std::size_t>(num_outputs) * sizeof(float));
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
  const std::int64_t bytes = panel_bytes(packed_format(kType), cols);
  while (num_outputs > kPanelRows) {
    const std::int64_t count = num_outputs < kSumStride ? num_outputs : kSumStride;
    multiply_panels<kType, kMaxPanels>(panels, count, cols, converted, num_rows, y, ldy);
    num_outputs -= count;
    panels += kMaxPanels * bytes;
    y += count;
  }
  if (num_outputs > 0) {
    multiply_panels<kType, 1>(panels, num_outputs, cols, converted, num_rows, y, ldy);
  }
}

// Rounds sixteen floats to bf16, ties to even; NaN stays NaN.
GRAFT_INLINE __m256i round_to_bf16(const float* from) {
  const __m512i bits = _mm512_loadu_si512(from);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i odd = _mm512_maskz_srli_epi32(0xffff, bits, 16) & one;
  const __m512i half = _mm512_set1_epi32(0x7fff);
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, half), odd);
  const __m512i magnitude = bits & _mm512_set1_epi32(0x7fffffff);
  const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
  const __m512i result =
      _mm512_mask_mov_epi32(rounded, is_nan, bits | _mm512_set1_epi32(0x00400000));
  return _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, result, 16));
}

// converted: [steps][rows][32] bf16
void convert_to_bf16(const float* const* rows,
                     std::int64_t num_rows,
                     std::int64_t cols,
                     std::byte* converted) {
  for (std::int64_t c = 0; c < cols; c += kStepCols) {
    for (std::int64_t row = 0; row < num_rows; ++row, converted += 64) {
      const __m256i low = round_to_bf16(rows[row] + c);
      const __m256i high = round_to_bf16(rows[row] + c + 16);
      __builtin_memcpy(converted, &low, sizeof(low));
      __builtin_memcpy(converted + 32, &high, sizeof(high));
    }
  }
}

template <std::size_t kRow = 0>
consteval void add_bf16_kernels(PackedTable& table) {
  if constexpr (kRow < kPackedTypes.size()) {
    constexpr DType kType = kPackedTypes[kRow].dtype;
    if constexpr (packed_format(kType).as_bf16) {
      table.kernels[static_cast<std::size_t>(kType)] = {.quantize = convert_to_bf16,
                                                        .multiply = multiply_bf16<kType>};
    }
    add_bf16_kernels<kRow + 1>(table);
  }
}

consteval PackedTable with_bf16(PackedTable table) {
  add_bf16_kernels(table);
  return table;
}

}  // namespace

#undef GRAFT_INLINE
