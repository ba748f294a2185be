// Unpacks codes and scales of a panel (graft/packing/panel_layout.h). See graft/quant/simd-inl.h
// for the rules of these files: included by packed-inl.h, after words-inl.h.

namespace {

// Prefetch distance of weights in bytes. Measured with two threads that share a memory channel:
// 1024 is 14 % slower, 2048 is 8 % slower.
inline constexpr std::int64_t kPrefetchBytes = 4096;

// values[code] + offset, as uint8.
struct CodeTable {
  std::uint8_t values[16];
};

consteval CodeTable make_code_table(const std::int8_t* values, int offset) {
  CodeTable table{};
  for (int i = 0; i < 16; ++i)
    table.values[i] = static_cast<std::uint8_t>(values[i] + offset);
  return table;
}

inline constexpr CodeTable kIq4Codes = make_code_table(quant::kIq4Values, 128);
inline constexpr CodeTable kFp4Codes = make_code_table(quant::kFp4Values, 16);

// Codes with offset 128 that this level multiplies as int8; they need no correction.
template <PackedFormat kFormat>
inline constexpr bool kCodesSigned = kSignedCodes&& kFormat.offset == 128;

template <PackedFormat kFormat>
inline constexpr int kBlockGroups = static_cast<int>(kBlockCols) / kFormat.group;

template <PackedFormat kFormat>
GRAFT_INLINE void prefetch_block(const std::byte* block) {
  for (std::int64_t line = 0; line < block_code_bytes(kFormat); line += 64)
    __builtin_prefetch(block + kPrefetchBytes + line);
}

// Unpacks 32 columns of 16 rows: words[i] holds codes 4 i .. 4 i + 3 of each row. Inverse of
// store_block() in graft/packing/pack_panel.cpp.
template <PackedFormat kFormat>
GRAFT_INLINE void unpack_block(const std::byte* block, Words* words) {
  constexpr int kBits = kFormat.bits;
  if constexpr (kBits == 8) {
#pragma GCC unroll 8
    for (int i = 0; i < kBlockWords; ++i)
      words[i] = load_words(block + 64 * i);
  } else if constexpr (kBits >= 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Words both = load_words(block + 64 * i);
      words[i] = shift_and_mask(both, 0, 15);
      words[i + 4] = shift_and_mask(both, 4, 15);
    }
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kBlockWords; ++i)
      words[i] = shift_and_mask(load_words(block + 64 * (i / 4)), 2 * (i % 4), 3);
  }
  if constexpr (kBits == 3 || kBits == 5) {
    constexpr int kTop = kBits - 1;
    const Words top = load_words(block + 64 * kTop);
#pragma GCC unroll 8
    for (int i = 0; i < kBlockWords; ++i)
      words[i] = words[i] | shift_and_mask(top, i - kTop, 1 << kTop);
  }
  if constexpr (kBits == 6) {
#pragma GCC unroll 8
    for (int i = 0; i < kBlockWords; ++i) {
      words[i] =
          words[i] | shift_and_mask(load_words(block + 64 * (4 + i / 4)), 2 * (i % 4) - 4, 0x30);
    }
  }
  if constexpr (kFormat.codes != PackedFormat::Codes::Plain) {
    constexpr const CodeTable& kTable =
        kFormat.codes == PackedFormat::Codes::Iq4 ? kIq4Codes : kFp4Codes;
#pragma GCC unroll 8
    for (int i = 0; i < kBlockWords; ++i)
      words[i] = look_up(kTable.values, words[i]);
  }
}

// Half the values of sixteen E8M0 exponents: kFp4Values are doubled.
GRAFT_INLINE F32x16 load_half_e8m0(const std::byte* from) {
  float values[16];
  for (int i = 0; i < 16; ++i) {
    const auto e = static_cast<std::uint32_t>(from[i]);
    values[i] = as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23);
  }
  return load(values);
}

// The header of a chunk: scale(group) and min(group) of the 16 rows as float.
template <PackedFormat kFormat>
struct ChunkScales {
  const std::byte* bytes;  // int8 scales [groups][16], then mins
  F32x16 d;
  F32x16 dmin;

  explicit GRAFT_INLINE ChunkScales(const std::byte* chunk)
      : bytes(chunk + kPanelRows * (kFormat.has_min ? 4 : 2)), d(0.0F), dmin(0.0F) {
    if constexpr (kFormat.scale == PackedFormat::Scale::E8M0) {
      d = load_half_e8m0(chunk);
    } else {
      d = load_f16(chunk);
      if constexpr (kFormat.has_min) dmin = load_f16(chunk + 2 * kPanelRows);
    }
  }

  GRAFT_INLINE F32x16 scale(std::int64_t group) const {
    if constexpr (kFormat.scale == PackedFormat::Scale::Nibbles) {
      return d * from_bytes(bits_at(load_bytes(bytes + group * kPanelRows), 0, 15));
    } else if constexpr (kFormat.scale == PackedFormat::Scale::Super) {
      return d * load_signed_bytes(bytes + group * kPanelRows);
    }
    return d;
  }

  GRAFT_INLINE F32x16 min(std::int64_t group) const {
    if constexpr (kFormat.scale == PackedFormat::Scale::Nibbles) {
      return dmin * from_bytes(bits_at(load_bytes(bytes + group * kPanelRows), 4, 15));
    } else if constexpr (kFormat.scale == PackedFormat::Scale::Super) {
      constexpr std::int64_t kGroups = 256 / kFormat.group;
      return dmin * load_signed_bytes(bytes + (kGroups + group) * kPanelRows);
    }
    return dmin;
  }
};

// g++ 12 miscompiles the Q2_K instance: it assumes that it writes nothing and drops the call.
#if defined(__clang__)
#define GRAFT_NOIPA
#else
#define GRAFT_NOIPA __attribute__((noipa))
#endif

template <PackedFormat kFormat>
GRAFT_NOIPA void unpack_panel(const std::byte* panel, int num_blocks, UnpackedPanel& out) {
  constexpr int kGroups = kBlockGroups<kFormat>;
  constexpr int kChunkBlocks = static_cast<int>(chunk_cols(kFormat) / kBlockCols);
  for (int first = 0; first < num_blocks; first += kChunkBlocks, panel += chunk_bytes(kFormat)) {
    const ChunkScales<kFormat> scales(panel);
    const std::byte* block = panel + chunk_header_bytes(kFormat);
    for (int r = 0; r < kChunkBlocks; ++r, block += block_code_bytes(kFormat)) {
      prefetch_block<kFormat>(block);
      Words words[kBlockWords];
      unpack_block<kFormat>(block, words);
#pragma GCC unroll 8
      for (int i = 0; i < kBlockWords; ++i)
        store_words(out.codes[first + r] + 64 * i, words[i]);
#pragma GCC unroll 2
      for (int g = 0; g < kGroups; ++g) {
        store(out.scales[first + r][g], scales.scale(r * kGroups + g));
        if constexpr (kFormat.has_min) store(out.mins[first + r][g], scales.min(r * kGroups + g));
      }
    }
  }
}

}  // namespace
