// Lanes: 16 unsigned integers of 32 bits, one per panel row, as native registers. See
// graft/quant/simd-inl.h for the rules of these files: included after words-inl.h.

namespace {

typedef std::uint32_t NativeU32 __attribute__((vector_size(GRAFT_VECTOR_BYTES)));  // NOLINT
typedef std::uint8_t NativeU8 __attribute__((vector_size(GRAFT_VECTOR_BYTES)));    // NOLINT

// A binary tree, as F32: g++ keeps an array of registers in memory.
template <int kCount>
struct U32 {
  U32<kCount / 2> low, high;
};

template <>
struct U32<kNativeLanes> {
  NativeU32 v;
};

using Lanes = U32<kLanes>;

// Applies Op to every native register.
template <class Op, int kCount>
GRAFT_INLINE U32<kCount> map(U32<kCount> a) {
  if constexpr (kCount == kNativeLanes) {
    return {Op::apply(a.v)};
  } else {
    return {map<Op>(a.low), map<Op>(a.high)};
  }
}

template <class Op, int kCount>
GRAFT_INLINE U32<kCount> map(U32<kCount> a, U32<kCount> b) {
  if constexpr (kCount == kNativeLanes) {
    return {Op::apply(a.v, b.v)};
  } else {
    return {map<Op>(a.low, b.low), map<Op>(a.high, b.high)};
  }
}

template <int kCount>
GRAFT_INLINE U32<kCount> all_lanes(std::uint32_t value) {
  if constexpr (kCount == kNativeLanes) {
    return {value - NativeU32{}};
  } else {
    return {all_lanes<kCount / 2>(value), all_lanes<kCount / 2>(value)};
  }
}

struct BitAnd {
  static GRAFT_INLINE NativeU32 apply(NativeU32 a, NativeU32 b) { return a & b; }
};

struct BitOr {
  static GRAFT_INLINE NativeU32 apply(NativeU32 a, NativeU32 b) { return a | b; }
};

struct BitXor {
  static GRAFT_INLINE NativeU32 apply(NativeU32 a, NativeU32 b) { return a ^ b; }
};

struct Negate {
  static GRAFT_INLINE NativeU32 apply(NativeU32 a) { return -a; }
};

struct NegateBytes {
  static GRAFT_INLINE NativeU32 apply(NativeU32 a) {
    return reinterpret_cast<NativeU32>(-reinterpret_cast<NativeU8>(a));
  }
};

struct AddBytes {
  static GRAFT_INLINE NativeU32 apply(NativeU32 a, NativeU32 b) {
    return reinterpret_cast<NativeU32>(reinterpret_cast<NativeU8>(a) +
                                       reinterpret_cast<NativeU8>(b));
  }
};

// 3 q >> 8 for every byte q: 0, 1 or 2.
struct FirstTrits {
  static GRAFT_INLINE NativeU32 apply(NativeU32 a) {
    const auto bytes = reinterpret_cast<NativeU8>(a);
    // Comparisons are 0 or -1.
    const auto below_one = reinterpret_cast<NativeU8>(bytes < 86);
    const auto below_two = reinterpret_cast<NativeU8>(bytes < 171);
    return reinterpret_cast<NativeU32>(below_one + below_two + std::uint8_t{2});
  }
};

GRAFT_INLINE Lanes operator&(Lanes a, Lanes b) {
  return map<BitAnd>(a, b);
}

GRAFT_INLINE Lanes operator&(Lanes a, std::uint32_t b) {
  return a & all_lanes<kLanes>(b);
}

GRAFT_INLINE Lanes operator|(Lanes a, Lanes b) {
  return map<BitOr>(a, b);
}

GRAFT_INLINE Lanes operator|(Lanes a, std::uint32_t b) {
  return a | all_lanes<kLanes>(b);
}

GRAFT_INLINE Lanes operator^(Lanes a, Lanes b) {
  return map<BitXor>(a, b);
}

template <int kCount>
GRAFT_INLINE U32<kCount> operator<<(U32<kCount> a, int count) {
  if constexpr (kCount == kNativeLanes) {
    return {a.v << count};
  } else {
    return {a.low << count, a.high << count};
  }
}

template <int kCount>
GRAFT_INLINE U32<kCount> operator>>(U32<kCount> a, int count) {
  if constexpr (kCount == kNativeLanes) {
    return {a.v >> count};
  } else {
    return {a.low >> count, a.high >> count};
  }
}

// All ones in the lanes where the bit is set, else 0.
GRAFT_INLINE Lanes all_of_bit(Lanes a, int bit) {
  return map<Negate>((a >> bit) & 1);
}

template <int kCount = kLanes>
GRAFT_INLINE U32<kCount> load_lanes(const std::byte* from) {
  if constexpr (kCount == kNativeLanes) {
    NativeU32 v;
    __builtin_memcpy(&v, from, sizeof(v));
    return {v};
  } else {
    return {load_lanes<kCount / 2>(from), load_lanes<kCount / 2>(from + 2 * kCount)};
  }
}

template <int kCount>
GRAFT_INLINE void store_lanes(std::byte* to, U32<kCount> a) {
  if constexpr (kCount == kNativeLanes) {
    __builtin_memcpy(to, &a.v, sizeof(a.v));
  } else {
    store_lanes(to, a.low);
    store_lanes(to + 2 * kCount, a.high);
  }
}

// Word `line` of 16 rows.
GRAFT_INLINE Lanes load_line(const std::byte* words, int line) {
  return load_lanes(words + 64 * line);
}

// Integers below 2^31 to float.
template <int kCount>
GRAFT_INLINE F32<kCount> floats_of(U32<kCount> a) {
  if constexpr (kCount == kNativeLanes) {
    return {__builtin_convertvector(reinterpret_cast<NativeI32>(a.v), NativeF32)};
  } else {
    return {floats_of(a.low), floats_of(a.high)};
  }
}

// Distance as in unpack-inl.h.
template <std::int64_t kBytes>
GRAFT_INLINE void prefetch_chunk(const std::byte* chunk) {
  for (std::int64_t line = 0; line < kBytes; line += 64)
    __builtin_prefetch(chunk + 4096 + line);
}

}  // namespace
