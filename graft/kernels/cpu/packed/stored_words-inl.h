// Unpacks the types with stored words (graft/packing/panel_layout.h) into memory: defines
// kAllStored in an anonymous namespace. Every instruction set writes the same bytes. See
// graft/quant/simd-inl.h for the rules of these files: the includer includes
// graft/kernels/cpu/packed/grid_tables.h before the region.

#include "graft/quant/simd-inl.h"
// The order matters: later files use the earlier ones.
#if GRAFT_NEON
#include "graft/kernels/cpu/arm/words-neon-inl.h"
#else
#include "graft/kernels/cpu/packed/words-inl.h"
#endif
//
#include "graft/kernels/cpu/packed/lanes-inl.h"
//
#if GRAFT_VECTOR_BYTES == 64
#include "graft/kernels/cpu/x86/grids-vbmi-inl.h"
#else
#include "graft/kernels/cpu/packed/grids-inl.h"
#endif

namespace {

using packing::chunk_bytes;
using packing::chunk_header_bytes;
using packing::packed_format;

// A block of 32 columns of 16 rows as its type stores it, one row per lane. A grid row stands for
// eight columns (IQ3: four).
struct StoredBlock {
  Lanes rows;       // low 8 bits of the grid row indices, four per word
  Lanes more_rows;  // of IQ3, which has eight indices
  Lanes high;       // upper bits of the indices, index k from bit kStride k on
  Lanes signs;      // bit c: column c is negative; of IQ1, bit k: delta of grid row k is negative
  Lanes scale;      // 2 scale + 1 of the block, or of its first 16 columns
  Lanes scale_16;   // of columns 16 .. 31
};

// Eight sign bits from each of four times seven: the eighth makes the number of ones even.
GRAFT_INLINE Lanes even_signs(Lanes w) {
  const Lanes seven =
      (w & 0x7f) | ((w << 1) & 0x7f00) | ((w << 2) & 0x7f0000) | ((w << 3) & 0x7f000000);
  Lanes parity = seven ^ (seven >> 4);
  parity = parity ^ (parity >> 2);
  parity = parity ^ (parity >> 1);
  return seven | ((parity & 0x01010101) << 7);
}

GRAFT_INLINE Lanes odd_scale(Lanes scale, std::uint32_t mask) {
  return ((scale << 1) & (2 * mask)) | 1;
}

GRAFT_INLINE Lanes none() {
  return all_lanes<kLanes>(0);
}

// Each type: its grid, upper index bits (number and stride), factor of its scales, and read().
template <DType kType>
struct StoredType;

template <>
struct StoredType<DType::IQ2_XXS> {
  static constexpr const auto& kGrid = kIq2XxsTable;
  static constexpr int kHighBits = 0;
  static constexpr int kStride = 0;
  static constexpr float kFactor = 0.125F;

  static GRAFT_INLINE StoredBlock read(const std::byte* words, int s) {
    const Lanes rest = load_line(words, 2 * s + 1);
    const Lanes scale = odd_scale(rest >> 28, 15);
    return {load_line(words, 2 * s), none(), none(), even_signs(rest), scale, scale};
  }
};

template <>
struct StoredType<DType::IQ2_XS> {
  static constexpr const auto& kGrid = kIq2XsTable;
  static constexpr int kHighBits = 1;
  static constexpr int kStride = 1;
  static constexpr float kFactor = 0.125F;

  static GRAFT_INLINE StoredBlock read(const std::byte* words, int s) {
    const Lanes rest = load_line(words, 2 * s + 1);
    const Lanes scales = load_line(words, 16 + s / 4) >> (s % 4 * 8);
    return {load_line(words, 2 * s),   none(), rest >> 28, even_signs(rest), odd_scale(scales, 15),
            odd_scale(scales >> 4, 15)};
  }
};

template <>
struct StoredType<DType::IQ2_S> {
  static constexpr const auto& kGrid = kIq2STable;
  static constexpr int kHighBits = 2;
  static constexpr int kStride = 2;
  static constexpr float kFactor = 0.125F;

  static GRAFT_INLINE StoredBlock read(const std::byte* words, int s) {
    const Lanes scales = load_line(words, 18 + s / 4) >> (s % 4 * 8);
    const Lanes high = load_line(words, 16 + s / 4) >> (s % 4 * 8);
    return {load_line(words, s),       none(), high, load_line(words, 8 + s), odd_scale(scales, 15),
            odd_scale(scales >> 4, 15)};
  }
};

template <>
struct StoredType<DType::IQ3_XXS> {
  static constexpr const auto& kGrid = kIq3XxsTable;
  static constexpr int kHighBits = 0;
  static constexpr int kStride = 0;
  static constexpr float kFactor = 0.25F;

  static GRAFT_INLINE StoredBlock read(const std::byte* words, int s) {
    const Lanes rest = load_line(words, 16 + s);
    const Lanes scale = odd_scale(rest >> 28, 15);
    return {load_line(words, 2 * s),
            load_line(words, 2 * s + 1),
            none(),
            even_signs(rest),
            scale,
            scale};
  }
};

template <>
struct StoredType<DType::IQ3_S> {
  static constexpr const auto& kGrid = kIq3STable;
  static constexpr int kHighBits = 1;
  static constexpr int kStride = 1;
  static constexpr float kFactor = 1.0F;

  static GRAFT_INLINE StoredBlock read(const std::byte* words, int s) {
    const Lanes scale = odd_scale(load_line(words, 26) >> (4 * s), 15);
    const Lanes high = load_line(words, 16 + s / 4) >> (s % 4 * 8);
    return {load_line(words, 2 * s),
            load_line(words, 2 * s + 1),
            high,
            load_line(words, 18 + s),
            scale,
            scale};
  }
};

// IQ1 codes are 8 (grid value) + delta, so the factor is an eighth.
template <>
struct StoredType<DType::IQ1_S> {
  static constexpr const auto& kGrid = kIq1Table;
  static constexpr int kHighBits = 3;
  static constexpr int kStride = 3;
  static constexpr float kFactor = 0.125F;

  static GRAFT_INLINE StoredBlock read(const std::byte* words, int s) {
    const Lanes high = load_line(words, 8 + s / 2) >> (s % 2 * 16);
    const Lanes scale = odd_scale(high >> 12, 7);
    return {load_line(words, s), none(), high, all_of_bit(high, 15), scale, scale};
  }
};

template <>
struct StoredType<DType::IQ1_M> {
  static constexpr const auto& kGrid = kIq1Table;
  static constexpr int kHighBits = 3;
  static constexpr int kStride = 4;
  static constexpr float kFactor = 0.125F;

  static GRAFT_INLINE StoredBlock read(const std::byte* words, int s) {
    const Lanes high = load_line(words, 8 + s / 2) >> (s % 2 * 16);
    const Lanes scales = load_line(words, 12 + s / 4) >> (s / 2 % 2 * 16 + s % 2 * 6);
    const Lanes deltas =
        ((high >> 3) & 1) | ((high >> 6) & 2) | ((high >> 9) & 4) | ((high >> 12) & 8);
    return {load_line(words, s),      none(), high, deltas, odd_scale(scales, 7),
            odd_scale(scales >> 3, 7)};
  }
};

// d of IQ1_M: the top nibbles of the four scales of 16 bits.
GRAFT_INLINE F32x16 load_spread_f16(const std::byte* words) {
  const Lanes low = load_line(words, 12);
  const Lanes high = load_line(words, 13);
  const Lanes d =
      ((low >> 12) & 15) | ((low >> 24) & 0xf0) | ((high >> 4) & 0xf00) | ((high >> 16) & 0xf000);
  std::uint32_t lanes[16];
  store_lanes(reinterpret_cast<std::byte*>(lanes), d);
  std::uint16_t halves[16];
  for (int i = 0; i < 16; ++i)
    halves[i] = static_cast<std::uint16_t>(lanes[i]);
  return load_f16(reinterpret_cast<const std::byte*>(halves));
}

template <DType kType>
void unpack_grids(const std::byte* panel, int num_blocks, UnpackedPanel& out) {
  using Type = StoredType<kType>;
  constexpr PackedFormat kFormat = packed_format(kType);
  for (int first = 0; first < num_blocks; first += 8, panel += chunk_bytes(kFormat)) {
    prefetch_chunk<chunk_bytes(kFormat)>(panel);
    const std::byte* words = panel + chunk_header_bytes(kFormat);
    F32x16 d = 0.0F;
    if constexpr (kType == DType::IQ1_M) {
      d = load_spread_f16(words) * F32x16(Type::kFactor);
    } else {
      d = load_f16(panel) * F32x16(Type::kFactor);
    }
    for (int s = 0; s < 8; ++s) {
      const StoredBlock block = Type::read(words, s);
      std::byte* codes = out.codes[first + s];
      if constexpr (Type::kGrid.kRowValues == 8) {
        const IndexBits<Type::kHighBits, Type::kStride> indices(block.rows, block.high);
        if constexpr (kFormat.offset == kIq1Offset) {
          unpack_shifted(Type::kGrid, indices, block.signs, codes);
        } else {
          unpack_eights<kFormat.offset>(Type::kGrid, indices, block.signs, codes);
        }
      } else {
        const IndexBits<Type::kHighBits, Type::kStride> low(block.rows, block.high);
        const IndexBits<Type::kHighBits, Type::kStride> high(block.more_rows, block.high >> 4);
        unpack_fours<kFormat.offset, 0>(Type::kGrid, low, block.signs, codes);
        unpack_fours<kFormat.offset, 4>(Type::kGrid, high, block.signs, codes);
      }
      store(out.scales[first + s][0], d * floats_of(block.scale));
      if constexpr (kFormat.group == 16)
        store(out.scales[first + s][1], d * floats_of(block.scale_16));
    }
  }
}

// Word w of 13 holds four bytes of five trits each (the last: four): a fixed-point fraction in base
// 3, of which a multiplication by 3 shifts out one trit. blocks.h names the columns.
void unpack_tq1_0(const std::byte* panel, int num_blocks, UnpackedPanel& out) {
  constexpr PackedFormat kFormat = packed_format(DType::TQ1_0);
  for (int first = 0; first < num_blocks; first += 8, panel += chunk_bytes(kFormat)) {
    prefetch_chunk<chunk_bytes(kFormat)>(panel);
    const std::byte* words = panel + chunk_header_bytes(kFormat);
    std::byte* codes = out.codes[first];
    for (int w = 0; w < 13; ++w) {
      Lanes rest = load_line(words, w);
      const int first_word = w < 8 ? w : w < 12 ? 32 + w : 60;
      const int step = w < 8 ? 8 : w < 12 ? 4 : 1;
      for (int k = 0; k < (w < 12 ? 5 : 4); ++k) {
        store_lanes(codes + 64 * (first_word + step * k), map<FirstTrits>(rest));
        rest = map<AddBytes>(rest, map<AddBytes>(rest, rest));
      }
    }
    const F32x16 d = load_f16(panel);
    for (int s = 0; s < 8; ++s)
      store(out.scales[first + s][0], d);
  }
}

consteval StoredUnpackers make_stored() {
  StoredUnpackers table{};
  table[static_cast<std::size_t>(DType::IQ1_S)] = unpack_grids<DType::IQ1_S>;
  table[static_cast<std::size_t>(DType::IQ1_M)] = unpack_grids<DType::IQ1_M>;
  table[static_cast<std::size_t>(DType::IQ2_XXS)] = unpack_grids<DType::IQ2_XXS>;
  table[static_cast<std::size_t>(DType::IQ2_XS)] = unpack_grids<DType::IQ2_XS>;
  table[static_cast<std::size_t>(DType::IQ2_S)] = unpack_grids<DType::IQ2_S>;
  table[static_cast<std::size_t>(DType::IQ3_XXS)] = unpack_grids<DType::IQ3_XXS>;
  table[static_cast<std::size_t>(DType::IQ3_S)] = unpack_grids<DType::IQ3_S>;
  table[static_cast<std::size_t>(DType::TQ1_0)] = unpack_tq1_0;
  return table;
}

constexpr StoredUnpackers kAllStored = make_stored();

}  // namespace

#undef GRAFT_INLINE
#undef GRAFT_NEON
#undef GRAFT_SCALAR
#undef GRAFT_VECTOR_BYTES
