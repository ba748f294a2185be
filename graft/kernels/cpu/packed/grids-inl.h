// Looks up grid rows with one load each. See graft/quant/simd-inl.h for the rules of these files:
// included by stored_words-inl.h, after lanes-inl.h.

namespace {

inline constexpr const auto& kIq1Table = kIq1Rows;
inline constexpr const auto& kIq2XxsTable = kIq2XxsRows;
inline constexpr const auto& kIq2XsTable = kIq2XsRows;
inline constexpr const auto& kIq2STable = kIq2SRows;
inline constexpr const auto& kIq3XxsTable = kIq3XxsRows;
inline constexpr const auto& kIq3STable = kIq3SRows;

// Four row indices of 16 panel rows: bytes of `rows` with kHighBits bits from bit kStride k of
// `high` above byte k.
template <int kHighBits, int kStride>
struct IndexBits {
  alignas(64) std::uint16_t pairs[2][16][2];  // [k % 2][panel row][k / 2]

  GRAFT_INLINE IndexBits(Lanes rows, Lanes high) {
    constexpr std::uint32_t kMask = (1U << kHighBits) - 1;
    for (int i = 0; i < 2; ++i) {
      const Lanes bits = high >> (kStride * i);
      const Lanes both = (bits & kMask) | ((bits << (16 - 2 * kStride)) & (kMask << 16));
      const Lanes pair = ((rows >> (8 * i)) & 0x00ff00ff) | (both << 8);
      store_lanes(reinterpret_cast<std::byte*>(pairs[i]), pair);
    }
  }
  GRAFT_INLINE std::uint32_t at(int k, int row) const { return pairs[k % 2][row][k / 2]; }
};

template <>
struct IndexBits<0, 0> {
  alignas(64) std::uint8_t indices[16][4];  // [panel row][k]

  GRAFT_INLINE IndexBits(Lanes rows, Lanes /*high*/) {
    store_lanes(reinterpret_cast<std::byte*>(indices), rows);
  }
  GRAFT_INLINE std::uint32_t at(int k, int row) const { return indices[row][k]; }
};

#if GRAFT_VECTOR_BYTES == 32

// Two rows of eight.
template <class Table>
GRAFT_INLINE __m128i load_two(const Table& table, std::uint32_t first, std::uint32_t second) {
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(table.rows[first]));
  return _mm_castps_si128(
      _mm_loadh_pi(_mm_castsi128_ps(low), reinterpret_cast<const __m64*>(table.rows[second])));
}

// The first four values of row index k of panel rows first .. first + 7 in `low`, the last four in
// `high`.
template <class Table, class Indices>
GRAFT_INLINE void load_eights(
    const Table& table, const Indices& at, int k, int first, U32<8>& low, U32<8>& high) {
  const __m256i a = _mm256_set_m128i(load_two(table, at.at(k, first + 4), at.at(k, first + 5)),
                                     load_two(table, at.at(k, first), at.at(k, first + 1)));
  const __m256i b = _mm256_set_m128i(load_two(table, at.at(k, first + 6), at.at(k, first + 7)),
                                     load_two(table, at.at(k, first + 2), at.at(k, first + 3)));
  const __m256 a_floats = _mm256_castsi256_ps(a);
  const __m256 b_floats = _mm256_castsi256_ps(b);
  low.v = reinterpret_cast<NativeU32>(_mm256_shuffle_ps(a_floats, b_floats, 0x88));
  high.v = reinterpret_cast<NativeU32>(_mm256_shuffle_ps(a_floats, b_floats, 0xdd));
}

template <class Table, class Indices>
GRAFT_INLINE void load_eights(
    const Table& table, const Indices& at, int k, Lanes& low, Lanes& high) {
  load_eights(table, at, k, 0, low.low, high.low);
  load_eights(table, at, k, 8, low.high, high.high);
}

// The values of row index k of panel rows first .. first + 7.
template <class Table, class Indices>
GRAFT_INLINE U32<8> load_fours(const Table& table, const Indices& at, int k, int first) {
  std::uint32_t fours[8];
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r)
    __builtin_memcpy(&fours[r], table.rows[at.at(k, first + r)], sizeof(fours[r]));
  return {
      NativeU32{fours[0], fours[1], fours[2], fours[3], fours[4], fours[5], fours[6], fours[7]}};
}

template <class Table, class Indices>
GRAFT_INLINE Lanes load_fours(const Table& table, const Indices& at, int k) {
  return {load_fours(table, at, k, 0), load_fours(table, at, k, 8)};
}

// Bytes of all ones where column 4 word + byte of a row is negative.
GRAFT_INLINE U32<8> sign_masks(U32<8> signs, int word) {
  // Copies byte word / 2 of every lane to its four bytes.
  const auto byte = static_cast<char>(word / 2);
  const __m256i order = _mm256_add_epi8(_mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0,
                                                          0x04040404, 0x08080808, 0x0c0c0c0c),
                                        _mm256_set1_epi8(byte));
  const __m256i bits =
      _mm256_set1_epi32(word % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010U));
  const __m256i copies = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(signs.v), order);
  return {reinterpret_cast<NativeU32>(_mm256_cmpeq_epi8(_mm256_and_si256(copies, bits), bits))};
}

GRAFT_INLINE Lanes sign_masks(Lanes signs, int word) {
  return {sign_masks(signs.low, word), sign_masks(signs.high, word)};
}

#else

template <class Table, class Indices>
GRAFT_INLINE void load_eights(
    const Table& table, const Indices& at, int k, Lanes& low, Lanes& high) {
  std::uint32_t words[2][16];
  for (int r = 0; r < 16; ++r) {
    const std::uint8_t* row = table.rows[at.at(k, r)];
    __builtin_memcpy(&words[0][r], row, 4);
    __builtin_memcpy(&words[1][r], row + 4, 4);
  }
  low = load_lanes(reinterpret_cast<const std::byte*>(words[0]));
  high = load_lanes(reinterpret_cast<const std::byte*>(words[1]));
}

template <class Table, class Indices>
GRAFT_INLINE Lanes load_fours(const Table& table, const Indices& at, int k) {
  std::uint32_t words[16];
  for (int r = 0; r < 16; ++r)
    __builtin_memcpy(&words[r], table.rows[at.at(k, r)], 4);
  return load_lanes(reinterpret_cast<const std::byte*>(words));
}

GRAFT_INLINE Lanes sign_masks(Lanes signs, int word) {
  const Lanes four = (signs >> (4 * word)) & 15;
  const Lanes ones = (four | (four << 7) | (four << 14) | (four << 21)) & 0x01010101;
  return map<NegateBytes>(ones);
}

#endif

// offset + value, or offset - value where the mask is all ones.
template <int kOffset>
struct WithSigns {
  static GRAFT_INLINE NativeU32 apply(NativeU32 values, NativeU32 masks) {
    const auto mask = reinterpret_cast<NativeU8>(masks);
    const NativeU8 value = reinterpret_cast<NativeU8>(values) ^ mask;
    return reinterpret_cast<NativeU32>(value + (std::uint8_t{kOffset} - mask));
  }
};

// Codes of a block whose grid rows have eight values.
template <int kOffset, class Table, class Indices>
GRAFT_INLINE void unpack_eights(const Table& table,
                                const Indices& indices,
                                Lanes signs,
                                std::byte* codes) {
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    Lanes low;
    Lanes high;
    load_eights(table, indices, k, low, high);
    store_lanes(codes + 128 * k, map<WithSigns<kOffset>>(low, sign_masks(signs, 2 * k)));
    store_lanes(codes + 128 * k + 64, map<WithSigns<kOffset>>(high, sign_masks(signs, 2 * k + 1)));
  }
}

// Words kFirst .. kFirst + 3 of a block whose grid rows have four values.
template <int kOffset, int kFirst, class Table, class Indices>
GRAFT_INLINE void unpack_fours(const Table& table,
                               const Indices& indices,
                               Lanes signs,
                               std::byte* codes) {
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const Lanes masks = sign_masks(signs, kFirst + k);
    store_lanes(codes + 64 * (kFirst + k),
                map<WithSigns<kOffset>>(load_fours(table, indices, k), masks));
  }
}

// Codes of IQ1: grid row k plus 1, or minus 1 where bit k of `deltas` is set.
template <class Table, class Indices>
GRAFT_INLINE void unpack_shifted(const Table& table,
                                 const Indices& indices,
                                 Lanes deltas,
                                 std::byte* codes) {
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    Lanes low;
    Lanes high;
    load_eights(table, indices, k, low, high);
    const Lanes delta = all_of_bit(deltas, k) | 0x01010101;
    store_lanes(codes + 128 * k, map<AddBytes>(low, delta));
    store_lanes(codes + 128 * k + 64, map<AddBytes>(high, delta));
  }
}

}  // namespace
