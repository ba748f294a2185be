// Codes and scales of a packed panel as the products use them. See graft/quant/simd-inl.h for the
// rules of these files: included by packed-inl.h, after words-inl.h.

namespace {

inline constexpr int kRunWords = 8;
// How far ahead weights are asked for: nearer comes too late for two threads that
// share the memory (measured: 1024 14 % and 2048 8 % slower).
inline constexpr std::int64_t kPrefetchBytes = 4096;

// table[code] + offset
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

// Codes that need all eight bits: those the level takes as signed have no start value.
template <PackedFormat kFormat>
inline constexpr bool kTakenAsSigned = kSignedCodes&& kFormat.offset == 128;

template <PackedFormat kFormat>
inline constexpr int kGroupsOfRun = static_cast<int>(kRunElems) / kFormat.group;

template <PackedFormat kFormat>
GRAFT_INLINE void prefetch_run(const std::byte* run) {
  for (std::int64_t line = 0; line < run_bytes(kFormat); line += 64)
    __builtin_prefetch(run + kPrefetchBytes + line);
}

// Undoes put_run of pack_panel.cpp.
template <PackedFormat kFormat>
GRAFT_INLINE void unpack_run(const std::byte* run, Words* words) {
  constexpr int kBits = kFormat.bits;
  if constexpr (kBits == 8) {
#pragma GCC unroll 8
    for (int i = 0; i < kRunWords; ++i)
      words[i] = load_words(run + 64 * i);
  } else if constexpr (kBits >= 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Words both = load_words(run + 64 * i);
      words[i] = shifted(both, 0, 15);
      words[i + 4] = shifted(both, 4, 15);
    }
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kRunWords; ++i)
      words[i] = shifted(load_words(run + 64 * (i / 4)), 2 * (i % 4), 3);
  }
  if constexpr (kBits == 3 || kBits == 5) {
    constexpr int kTop = kBits - 1;
    const Words top = load_words(run + 64 * kTop);
#pragma GCC unroll 8
    for (int i = 0; i < kRunWords; ++i)
      words[i] = words[i] | shifted(top, i - kTop, 1 << kTop);
  }
  if constexpr (kBits == 6) {
#pragma GCC unroll 8
    for (int i = 0; i < kRunWords; ++i)
      words[i] = words[i] | shifted(load_words(run + 64 * (4 + i / 4)), 2 * (i % 4) - 4, 0x30);
  }
  if constexpr (kFormat.codes != PackedFormat::Codes::Themselves) {
    constexpr const CodeTable& kTable =
        kFormat.codes == PackedFormat::Codes::Iq4 ? kIq4Codes : kFp4Codes;
#pragma GCC unroll 8
    for (int i = 0; i < kRunWords; ++i)
      words[i] = look_up(kTable.values, words[i]);
  }
}

// The header of a chunk.
template <PackedFormat kFormat>
struct ChunkScales {
  const std::byte* bytes;
  F32x16 d;
  F32x16 dmin;

  explicit GRAFT_INLINE ChunkScales(const std::byte* chunk)
      : bytes(chunk + kPanelRows * (kFormat.has_min ? 4 : 2)), d(0.0F), dmin(0.0F) {
    if constexpr (kFormat.scale == PackedFormat::Scale::E8M0) {
      d = load_exponents(chunk);
    } else {
      d = load_halves(chunk);
      if constexpr (kFormat.has_min) dmin = load_halves(chunk + 2 * kPanelRows);
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

// Some runs of a panel, unpacked for many rows: what lies between two calls stays in the
// first-level cache.
inline constexpr int kRunsAtOnce = 16;

struct UnpackedPanel {
  alignas(64) std::byte codes[kRunsAtOnce][kRunWords * 64];
  alignas(64) float scales[kRunsAtOnce][2][16];
  alignas(64) float mins[kRunsAtOnce][2][16];
};

// g++ 12 believes that the instance for Q2_K writes nothing and drops the call.
#if defined(__clang__)
#define GRAFT_NOIPA
#else
#define GRAFT_NOIPA __attribute__((noipa))
#endif

template <PackedFormat kFormat>
GRAFT_NOIPA void unpack_panel(const std::byte* panel, int num_runs, UnpackedPanel& out) {
  constexpr int kGroups = kGroupsOfRun<kFormat>;
  constexpr int kRunsOfChunk = static_cast<int>(chunk_elems(kFormat) / kRunElems);
  for (int first = 0; first < num_runs; first += kRunsOfChunk, panel += chunk_bytes(kFormat)) {
    const ChunkScales<kFormat> scales(panel);
    const std::byte* run = panel + chunk_header_bytes(kFormat);
    for (int r = 0; r < kRunsOfChunk; ++r, run += run_bytes(kFormat)) {
      prefetch_run<kFormat>(run);
      Words words[kRunWords];
      unpack_run<kFormat>(run, words);
#pragma GCC unroll 8
      for (int i = 0; i < kRunWords; ++i)
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
