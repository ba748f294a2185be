// Looks up grid rows in tables of bytes with vpermi2b: 64 rows at a time. See
// graft/quant/simd-inl.h for the rules of these files: included by stored_words-inl.h, after
// lanes-inl.h.

namespace {

inline constexpr const auto& kIq1Table = kIq1Digits;
inline constexpr const auto& kIq2XxsTable = kIq2XxsDigits;
inline constexpr const auto& kIq2XsTable = kIq2XsDigits;
inline constexpr const auto& kIq2STable = kIq2SDigits;
inline constexpr const auto& kIq3XxsTable = kIq3XxsColumns;
inline constexpr const auto& kIq3STable = kIq3SColumns;

// For every byte of a register, a bit of the two lanes (64 bits) around it: in the even lane bit
// `first` + `step` b for byte b, in the odd lane 32 more.
GRAFT_INLINE __m512i bit_positions(int first, int step) {
  const std::uint64_t even = static_cast<std::uint64_t>(first) * 0x01010101U +
                             static_cast<std::uint64_t>(step) * 0x03020100U;
  return _mm512_set1_epi64(static_cast<long long>(even | (even + 0x20202020U) << 32));
}

GRAFT_INLINE __m512i register_of(Lanes a) {
  return reinterpret_cast<__m512i>(a.v);
}

GRAFT_INLINE Lanes lanes_of(__m512i a) {
  return {reinterpret_cast<NativeU32>(a)};
}

GRAFT_INLINE __m512i load_table(const std::uint8_t* from) {
  __m512i table;
  __builtin_memcpy(&table, from, sizeof(table));
  return table;
}

// Four row indices of 16 panel rows: bytes of `rows` with kHighBits bits from bit kStride k of
// `high` above byte k.
template <int kHighBits, int kStride>
struct IndexBits {
  __m512i low;         // byte 4 row + k: the low 8 bits; vpermi2b uses 7
  __mmask64 masks[4];  // bit 7, 8, 9, 10 of the indices

  GRAFT_INLINE IndexBits(Lanes rows, Lanes high) : low(register_of(rows)) {
    masks[0] = _mm512_movepi8_mask(low);
    if constexpr (kHighBits > 0) {
      const __m512i bits = _mm512_maskz_multishift_epi64_epi8(
          ~std::uint64_t{0}, bit_positions(0, kStride), register_of(high));
#pragma GCC unroll 3
      for (int i = 0; i < kHighBits; ++i)
        masks[1 + i] = _mm512_test_epi8_mask(bits, _mm512_set1_epi8(static_cast<char>(1 << i)));
    }
  }
};

// table[index] for 64 indices below kSize. kBit is the mask that selects the upper half.
template <int kSize, class Indices>
GRAFT_INLINE __m512i look_up_rows(const std::uint8_t* table, const Indices& indices) {
  if constexpr (kSize == 128) {
    return _mm512_permutex2var_epi8(load_table(table), indices.low, load_table(table + 64));
  } else {
    constexpr int kBit = kSize == 256 ? 0 : kSize == 512 ? 1 : kSize == 1024 ? 2 : 3;
    const __m512i lower = look_up_rows<kSize / 2>(table, indices);
    const __m512i upper = look_up_rows<kSize / 2>(table + kSize / 2, indices);
    return _mm512_mask_blend_epi8(indices.masks[kBit], lower, upper);
  }
}

// words[0] and words[1]: the first and last four values of row index k of each panel row, from
// digits as looked up.
template <class Table>
GRAFT_INLINE Lanes values_of(const Table& table, __m512i digits, int k) {
  const __m512i fields =
      _mm512_maskz_multishift_epi64_epi8(~std::uint64_t{0}, bit_positions(8 * k, 2), digits);
  return lanes_of(
      _mm512_maskz_permutexvar_epi8(~std::uint64_t{0}, fields, load_table(table.values)));
}

// 2 offset - code where the column is negative.
template <int kOffset>
GRAFT_INLINE Lanes with_signs(Lanes codes, Lanes signs, int word) {
  const __mmask64 negative =
      _mm512_bitshuffle_epi64_mask(register_of(signs), bit_positions(4 * word, 1));
  return lanes_of(_mm512_mask_sub_epi8(register_of(codes), negative, _mm512_set1_epi8(2 * kOffset),
                                       register_of(codes)));
}

// Codes of a block whose grid rows have eight values.
template <int kOffset, class Table, class Indices>
GRAFT_INLINE void unpack_eights(const Table& table,
                                const Indices& indices,
                                Lanes signs,
                                std::byte* codes) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m512i digits = look_up_rows<Table::kNumRows>(table.digits[half], indices);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const int word = 2 * k + half;
      store_lanes(codes + 64 * word, with_signs<kOffset>(values_of(table, digits, k), signs, word));
    }
  }
}

// Codes of IQ1: grid row k plus 1, or minus 1 where bit k of `deltas` is set.
template <class Table, class Indices>
GRAFT_INLINE void unpack_shifted(const Table& table,
                                 const Indices& indices,
                                 Lanes deltas,
                                 std::byte* codes) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m512i digits = look_up_rows<Table::kNumRows>(table.digits[half], indices);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const Lanes delta = all_of_bit(deltas, k) | 0x01010101;
      store_lanes(codes + 64 * (2 * k + half), map<AddBytes>(values_of(table, digits, k), delta));
    }
  }
}

// b where the mask is set, else a.
GRAFT_INLINE __m512i blend_bytes(std::uint64_t mask, __m512i a, __m512i b) {
  return _mm512_mask_blend_epi8(mask, a, b);
}

// Words kFirst .. kFirst + 3 of a block whose grid rows have four values.
template <int kOffset, int kFirst, class Table, class Indices>
GRAFT_INLINE void unpack_fours(const Table& table,
                               const Indices& indices,
                               Lanes signs,
                               std::byte* codes) {
  constexpr std::uint64_t kOdd = 0xaaaaaaaaaaaaaaaaU;
  constexpr std::uint64_t kUpper = 0xccccccccccccccccU;
  constexpr std::uint32_t kAll = ~std::uint32_t{0};
  // columns[i], byte 4 row + k: value i of row index k. Transposing the 4 x 4 bytes of each lane
  // gives the words.
  __m512i columns[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    columns[i] = look_up_rows<Table::kNumRows>(table.columns[i], indices);
  __m512i pairs[2][2];  // [k % 2][values 0 and 1, or 2 and 3]
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512i first = columns[2 * i];
    const __m512i second = columns[2 * i + 1];
    pairs[0][i] = blend_bytes(kOdd, first, _mm512_maskz_slli_epi16(kAll, second, 8));
    pairs[1][i] = blend_bytes(kOdd, _mm512_maskz_srli_epi16(kAll, first, 8), second);
  }
#pragma GCC unroll 2
  for (int k = 0; k < 2; ++k) {
    const __m512i low =
        blend_bytes(kUpper, pairs[k][0], _mm512_maskz_slli_epi32(0xffff, pairs[k][1], 16));
    const __m512i high =
        blend_bytes(kUpper, _mm512_maskz_srli_epi32(0xffff, pairs[k][0], 16), pairs[k][1]);
    const int word = kFirst + k;
    store_lanes(codes + 64 * word, with_signs<kOffset>(lanes_of(low), signs, word));
    store_lanes(codes + 64 * (word + 2), with_signs<kOffset>(lanes_of(high), signs, word + 2));
  }
}

}  // namespace
