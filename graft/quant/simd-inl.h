// Vectors of 16 lanes and the conversions shared by the codecs. Re-includable: no pragma once, no
// std headers; the includer includes graft/quant/blocks.h first and defines GRAFT_VECTOR_BYTES, and
// on ARM64 GRAFT_NEON as 1 for the NEON instructions of its 16-byte vectors. The
// lane count and the order of every sum are fixed, so every instruction set gives the same bits. No
// lambdas and nothing from std:: in functions here: g++ compiles those for the baseline even inside
// a target region. NaN and infinity: see load_finite().

#ifndef GRAFT_VECTOR_BYTES
#error "define GRAFT_VECTOR_BYTES as the vector width of this region: 16, 32 or 64"
#endif

#ifndef GRAFT_NEON
#define GRAFT_NEON 0
#endif
// The baseline: vectors of the compiler, no instructions beyond the ABI.
#define GRAFT_SCALAR (GRAFT_VECTOR_BYTES == 16 && !GRAFT_NEON)

#define GRAFT_INLINE inline __attribute__((always_inline))

namespace {

typedef float NativeF32 __attribute__((vector_size(GRAFT_VECTOR_BYTES)));         // NOLINT
typedef std::int32_t NativeI32 __attribute__((vector_size(GRAFT_VECTOR_BYTES)));  // NOLINT

// Sixteen bytes are one register on every instruction set.
typedef std::uint8_t U8x16 __attribute__((vector_size(16)));   // NOLINT
typedef std::uint16_t U16x8 __attribute__((vector_size(16)));  // NOLINT
typedef std::uint64_t U64x2 __attribute__((vector_size(16)));  // NOLINT

inline constexpr int kNativeLanes = GRAFT_VECTOR_BYTES / 4;
inline constexpr int kLanes = 16;

// Encoders with an f16 scale clamp inputs to this magnitude: larger than any value these types can
// represent, small enough that the fourth powers in the scale search stay finite.
inline constexpr float kLargest = 1e8F;
// Blocks whose values are all smaller encode as zeros: f16 scales cannot represent them.
inline constexpr float kSmallest = 1e-9F;

// kCount lanes as a binary tree of native registers: compilers scalarise many operations on vectors
// wider than a register.
template <int kCount>
struct Mask {
  Mask<kCount / 2> low, high;

  friend GRAFT_INLINE Mask operator&(Mask a, Mask b) { return {a.low & b.low, a.high & b.high}; }
};

template <>
struct Mask<kNativeLanes> {
  NativeI32 v;

  friend GRAFT_INLINE Mask operator&(Mask a, Mask b) { return {a.v & b.v}; }
};

// clang-format off
template <int kCount>
struct F32 {
  using M = Mask<kCount>;
  F32<kCount / 2> low, high;

  F32() = default;
  GRAFT_INLINE F32(float value) : low(value), high(value) {}  // NOLINT(google-explicit-constructor)
  GRAFT_INLINE F32(F32<kCount / 2> l, F32<kCount / 2> h) : low(l), high(h) {}

  friend GRAFT_INLINE F32 operator+(F32 a, F32 b) { return {a.low + b.low, a.high + b.high}; }
  friend GRAFT_INLINE F32 operator-(F32 a, F32 b) { return {a.low - b.low, a.high - b.high}; }
  friend GRAFT_INLINE F32 operator*(F32 a, F32 b) { return {a.low * b.low, a.high * b.high}; }
  friend GRAFT_INLINE F32 operator/(F32 a, F32 b) { return {a.low / b.low, a.high / b.high}; }
  friend GRAFT_INLINE F32 operator-(F32 a) { return {-a.low, -a.high}; }
  friend GRAFT_INLINE M operator<(F32 a, F32 b) { return {a.low < b.low, a.high < b.high}; }
  friend GRAFT_INLINE M operator>(F32 a, F32 b) { return {a.low > b.low, a.high > b.high}; }
  friend GRAFT_INLINE M operator==(F32 a, F32 b) { return {a.low == b.low, a.high == b.high}; }
  friend GRAFT_INLINE M operator!=(F32 a, F32 b) { return {a.low != b.low, a.high != b.high}; }
  friend GRAFT_INLINE F32 choose(M m, F32 a, F32 b) {
    return {choose(m.low, a.low, b.low), choose(m.high, a.high, b.high)};
  }
  friend GRAFT_INLINE F32 vabs(F32 a) { return {vabs(a.low), vabs(a.high)}; }
  friend GRAFT_INLINE F32 vmin(F32 a, F32 b) { return {vmin(a.low, b.low), vmin(a.high, b.high)}; }
  friend GRAFT_INLINE F32 vmax(F32 a, F32 b) { return {vmax(a.low, b.low), vmax(a.high, b.high)}; }
  GRAFT_INLINE F32& operator+=(F32 b) { return *this = *this + b; }
};

template <>
struct F32<kNativeLanes> {
  using M = Mask<kNativeLanes>;
  NativeF32 v;

  F32() = default;
  GRAFT_INLINE F32(float value) : v(value - NativeF32{}) {}  // NOLINT(google-explicit-constructor)
  GRAFT_INLINE F32(NativeF32 native) : v(native) {}          // NOLINT(google-explicit-constructor)

  friend GRAFT_INLINE F32 operator+(F32 a, F32 b) { return {a.v + b.v}; }
  friend GRAFT_INLINE F32 operator-(F32 a, F32 b) { return {a.v - b.v}; }
  friend GRAFT_INLINE F32 operator*(F32 a, F32 b) { return {a.v * b.v}; }
  friend GRAFT_INLINE F32 operator/(F32 a, F32 b) { return {a.v / b.v}; }
  friend GRAFT_INLINE F32 operator-(F32 a) { return {-a.v}; }
  friend GRAFT_INLINE M operator<(F32 a, F32 b) { return {a.v < b.v}; }
  friend GRAFT_INLINE M operator>(F32 a, F32 b) { return {a.v > b.v}; }
  friend GRAFT_INLINE M operator==(F32 a, F32 b) { return {a.v == b.v}; }
  friend GRAFT_INLINE M operator!=(F32 a, F32 b) { return {a.v != b.v}; }
  friend GRAFT_INLINE F32 choose(M m, F32 a, F32 b) { return {m.v ? a.v : b.v}; }
  friend GRAFT_INLINE F32 vabs(F32 a) {
    return {reinterpret_cast<NativeF32>(reinterpret_cast<NativeI32>(a.v) & 0x7fffffff)};
  }
#if GRAFT_VECTOR_BYTES == 64  // g++ 12 emits min and max instructions only up to 32 bytes
  friend GRAFT_INLINE F32 vmin(F32 a, F32 b) { return {_mm512_maskz_min_ps(0xffff, a.v, b.v)}; }
  friend GRAFT_INLINE F32 vmax(F32 a, F32 b) { return {_mm512_maskz_max_ps(0xffff, a.v, b.v)}; }
#else
  friend GRAFT_INLINE F32 vmin(F32 a, F32 b) { return {a.v < b.v ? a.v : b.v}; }
  friend GRAFT_INLINE F32 vmax(F32 a, F32 b) { return {a.v > b.v ? a.v : b.v}; }
#endif
  GRAFT_INLINE F32& operator+=(F32 b) { return *this = *this + b; }
};
// clang-format on

using F32x16 = F32<kLanes>;

typedef float V4 __attribute__((vector_size(16)));   // NOLINT
typedef float V8 __attribute__((vector_size(32)));   // NOLINT
typedef float V16 __attribute__((vector_size(64)));  // NOLINT

// a * b + c: fused (rounded once) with AVX2, AVX-512 and NEON, rounded twice at the baseline.
#if GRAFT_NEON
GRAFT_INLINE float mul_add(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
GRAFT_INLINE V4 mul_add(V4 a, V4 b, V4 c) {
  return vfmaq_f32(c, a, b);
}
#elif GRAFT_VECTOR_BYTES >= 32
GRAFT_INLINE float mul_add(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
GRAFT_INLINE V4 mul_add(V4 a, V4 b, V4 c) {
  return _mm_fmadd_ps(a, b, c);
}
GRAFT_INLINE V8 mul_add(V8 a, V8 b, V8 c) {
  return _mm256_fmadd_ps(a, b, c);
}
#else
template <class V>
GRAFT_INLINE V mul_add(V a, V b, V c) {
  return a * b + c;
}
#endif
#if GRAFT_VECTOR_BYTES == 64
GRAFT_INLINE V16 mul_add(V16 a, V16 b, V16 c) {
  return _mm512_fmadd_ps(a, b, c);
}
#endif

template <int kCount>
GRAFT_INLINE F32<kCount> mul_add(F32<kCount> a, F32<kCount> b, F32<kCount> c) {
  if constexpr (kCount == kNativeLanes) {
    return {mul_add(a.v, b.v, c.v)};
  } else {
    return {mul_add(a.low, b.low, c.low), mul_add(a.high, b.high, c.high)};
  }
}

// a where the mask is set, else b
GRAFT_INLINE F32x16 select(Mask<kLanes> mask, F32x16 a, F32x16 b) {
  return choose(mask, a, b);
}

GRAFT_INLINE float as_float(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

GRAFT_INLINE std::uint32_t as_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

template <int kCount = kLanes>
GRAFT_INLINE F32<kCount> load(const float* from) {
  if constexpr (kCount == kNativeLanes) {
    NativeF32 v;
    __builtin_memcpy(&v, from, sizeof(v));
    return {v};
  } else {
    return {load<kCount / 2>(from), load<kCount / 2>(from + kCount / 2)};
  }
}

template <int kCount>
GRAFT_INLINE void store(float* to, F32<kCount> v) {
  if constexpr (kCount == kNativeLanes) {
    __builtin_memcpy(to, &v.v, sizeof(v.v));
  } else {
    store(to, v.low);
    store(to + kCount / 2, v.high);
  }
}

GRAFT_INLINE F32x16 clamp(F32x16 v, float low, float high) {
  return vmin(vmax(v, low), high);
}

// Nearest integer, ties to even; exact for |v| < 2^22. Adding 1.5 * 2^23 shifts the fraction out.
template <class T>
GRAFT_INLINE T round_even(T v) {
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23
  return (v + kShift) - kShift;
}

struct Add {
  template <class T>
  static GRAFT_INLINE T apply(T a, T b) {
    return a + b;
  }
};

struct Max {
  template <class T>
  static GRAFT_INLINE T apply(T a, T b) {
    return vmax(a, b);
  }
};

// Combines lane i with lane i + kCount / 2, then halves again: the same tree for every register
// width.
template <class Op, int kCount>
GRAFT_INLINE float reduce(F32<kCount> v) {
  if constexpr (kCount > kNativeLanes) {
    return reduce<Op>(Op::apply(v.low, v.high));
  } else {
    using N = F32<kNativeLanes>;
#if GRAFT_VECTOR_BYTES == 64
    v = Op::apply(v, N(__builtin_shufflevector(v.v, v.v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3,
                                               4, 5, 6, 7)));
    v = Op::apply(v, N(__builtin_shufflevector(v.v, v.v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8,
                                               9, 10, 11)));
    v = Op::apply(v, N(__builtin_shufflevector(v.v, v.v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14,
                                               15, 12, 13)));
    v = Op::apply(v, N(__builtin_shufflevector(v.v, v.v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13,
                                               12, 15, 14)));
#elif GRAFT_VECTOR_BYTES == 32
    v = Op::apply(v, N(__builtin_shufflevector(v.v, v.v, 4, 5, 6, 7, 0, 1, 2, 3)));
    v = Op::apply(v, N(__builtin_shufflevector(v.v, v.v, 2, 3, 0, 1, 6, 7, 4, 5)));
    v = Op::apply(v, N(__builtin_shufflevector(v.v, v.v, 1, 0, 3, 2, 5, 4, 7, 6)));
#else
    v = Op::apply(v, N(__builtin_shufflevector(v.v, v.v, 2, 3, 0, 1)));
    v = Op::apply(v, N(__builtin_shufflevector(v.v, v.v, 1, 0, 3, 2)));
#endif
    return v.v[0];
  }
}

// Bit i is the mask of lane i.
template <int kCount>
GRAFT_INLINE unsigned bits_of(Mask<kCount> mask) {
  if constexpr (kCount > kNativeLanes) {
    return bits_of(mask.low) | bits_of(mask.high) << (kCount / 2);
  } else {
#if GRAFT_VECTOR_BYTES == 64
    return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask.v));
#elif GRAFT_VECTOR_BYTES == 32
    return static_cast<unsigned>(_mm256_movemask_ps(reinterpret_cast<__m256>(mask.v)));
#else
    unsigned bits = 0;
    for (int i = 0; i < kCount; ++i)
      bits |= (mask.v[i] != 0 ? 1U : 0U) << i;
    return bits;
#endif
  }
}

GRAFT_INLINE float sum(F32x16 v) {
  return reduce<Add>(v);
}

GRAFT_INLINE float max_lane(F32x16 v) {
  return reduce<Max>(v);
}

GRAFT_INLINE float min_lane(F32x16 v) {
  return -max_lane(-v);
}

// NaN reads as 0; other values are clamped to +-largest.
GRAFT_INLINE F32x16 load_finite(const float* from, float largest = kLargest) {
  const F32x16 v = load(from);
  return clamp(select(v == v, v, 0.0F), -largest, largest);
}

GRAFT_INLINE U8x16 load_bytes(const void* from) {
  U8x16 v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

// (byte >> shift) & mask for each byte. The shift is on 16-bit lanes; `mask` removes the bits that
// enter from the neighbouring byte.
GRAFT_INLINE U8x16 bits_at(U8x16 v, int shift, int mask) {
  return reinterpret_cast<U8x16>(reinterpret_cast<U16x8>(v) >> shift) &
         static_cast<std::uint8_t>(mask);
}

GRAFT_INLINE U8x16 shift_left(U8x16 v, int shift) {
  return reinterpret_cast<U8x16>(reinterpret_cast<U16x8>(v) << shift);
}

// uint8 to float.
GRAFT_INLINE F32x16 from_bytes(U8x16 v) {
#if GRAFT_VECTOR_BYTES == 64
  const __m512i words = _mm512_maskz_cvtepu8_epi32(0xffff, reinterpret_cast<__m128i>(v));
  return {_mm512_maskz_cvtepi32_ps(0xffff, words)};
#elif GRAFT_VECTOR_BYTES == 32
  const auto bytes = reinterpret_cast<__m128i>(v);
  const __m128i upper = _mm_unpackhi_epi64(bytes, bytes);
  return {F32<8>(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes))),
          F32<8>(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(upper)))};
#elif GRAFT_NEON
  const uint16x8_t low = vmovl_u8(vget_low_u8(v));
  const uint16x8_t high = vmovl_high_u8(v);
  return {F32<8>(F32<4>(vcvtq_f32_u32(vmovl_u16(vget_low_u16(low)))),
                 F32<4>(vcvtq_f32_u32(vmovl_high_u16(low)))),
          F32<8>(F32<4>(vcvtq_f32_u32(vmovl_u16(vget_low_u16(high)))),
                 F32<4>(vcvtq_f32_u32(vmovl_high_u16(high))))};
#else
  const U8x16 zero{};
  const auto low = reinterpret_cast<U16x8>(
      __builtin_shufflevector(v, zero, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
  const auto high = reinterpret_cast<U16x8>(__builtin_shufflevector(
      v, zero, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
  const U16x8 none{};
  const auto a =
      reinterpret_cast<NativeI32>(__builtin_shufflevector(low, none, 0, 8, 1, 9, 2, 10, 3, 11));
  const auto b =
      reinterpret_cast<NativeI32>(__builtin_shufflevector(low, none, 4, 12, 5, 13, 6, 14, 7, 15));
  const auto c =
      reinterpret_cast<NativeI32>(__builtin_shufflevector(high, none, 0, 8, 1, 9, 2, 10, 3, 11));
  const auto d =
      reinterpret_cast<NativeI32>(__builtin_shufflevector(high, none, 4, 12, 5, 13, 6, 14, 7, 15));
  return {F32<8>(F32<4>(__builtin_convertvector(a, NativeF32)),
                 F32<4>(__builtin_convertvector(b, NativeF32))),
          F32<8>(F32<4>(__builtin_convertvector(c, NativeF32)),
                 F32<4>(__builtin_convertvector(d, NativeF32)))};
#endif
}

// int8 to float.
GRAFT_INLINE F32x16 from_signed_bytes(U8x16 v) {
  return from_bytes(v ^ 0x80) - 128.0F;
}

// table[code] for sixteen codes below 16.
GRAFT_INLINE U8x16 look_up(const std::int8_t* table, U8x16 codes) {
#if GRAFT_VECTOR_BYTES >= 32
  const auto values = reinterpret_cast<__m128i>(load_bytes(table));
  return reinterpret_cast<U8x16>(_mm_shuffle_epi8(values, reinterpret_cast<__m128i>(codes)));
#elif GRAFT_NEON
  return vqtbl1q_u8(load_bytes(table), codes);
#else
  U8x16 found;
  for (int i = 0; i < kLanes; ++i)
    found[i] = static_cast<std::uint8_t>(table[codes[i]]);
  return found;
#endif
}

// Integral floats in 0..255 to uint8.
GRAFT_INLINE void store_bytes(std::uint8_t* to, F32x16 v) {
  float t[kLanes];
  store(t, v);
  for (int i = 0; i < kLanes; ++i)
    to[i] = static_cast<std::uint8_t>(static_cast<int>(t[i]));
}

// Converts a float with kExp exponent and kMan mantissa bits (sign on top), exactly. With kHasInf
// the top exponent holds infinity and NaNs; without, only all ones is NaN. The result is a quiet
// NaN.
template <int kExp, int kMan, bool kHasInf>
GRAFT_INLINE float from_minifloat(std::uint32_t code) {
  constexpr std::uint32_t kShift = 23 - kMan;
  constexpr std::uint32_t kAll = (1U << (kExp + kMan)) - 1;
  constexpr std::uint32_t kRebias = (127U - ((1U << (kExp - 1)) - 1)) << 23;
  constexpr std::uint32_t kOne = 1U << 23;
  constexpr std::uint32_t kTop = ((1U << kExp) - 1) << kMan;
  const std::uint32_t magnitude = code & kAll;
  const std::uint32_t sign = (code & (kAll + 1)) << (31 - kExp - kMan);
  const std::uint32_t shifted = (magnitude << kShift) + kRebias;
  // Subnormal: setting the exponent to 1 and subtracting the implicit one normalises it.
  const float small = as_float(shifted + kOne) - as_float(kRebias + kOne);
  std::uint32_t bits = magnitude < (1U << kMan) ? as_bits(small) : shifted;
  if constexpr (kHasInf) {
    bits = magnitude >= kTop ? (0x7f800000U | magnitude << kShift) : bits;
    bits = magnitude > kTop ? bits | 0x00400000U : bits;
  } else {
    bits = magnitude == kAll ? 0x7fc00000U : bits;
  }
  return as_float(bits | sign);
}

// Rounds to nearest even. Finite values that overflow become infinity or, with kSaturate or without
// an infinity, the largest finite value; infinity stays infinity where the type has one. NaN stays
// NaN.
template <int kExp, int kMan, bool kHasInf, bool kSaturate>
GRAFT_INLINE std::uint32_t to_minifloat(float value) {
  constexpr std::uint32_t kShift = 23 - kMan;
  constexpr std::uint32_t kAll = (1U << (kExp + kMan)) - 1;
  constexpr std::uint32_t kBias = (127U - ((1U << (kExp - 1)) - 1)) << 23;
  constexpr std::uint32_t kTop = ((1U << kExp) - 1) << kMan;
  constexpr std::uint32_t kLargestCode = kHasInf ? kTop - 1 : kAll - 1;
  constexpr std::uint32_t kOverflow = kHasInf && !kSaturate ? kTop : kLargestCode;
  const std::uint32_t bits = as_bits(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t odd = (magnitude >> kShift) & 1;
  const std::uint32_t normal = (magnitude - kBias + (1U << (kShift - 1)) - 1 + odd) >> kShift;
  // Subnormal: adding the power of two whose last mantissa bit is the smallest step rounds.
  constexpr float kStep = __builtin_bit_cast(float, kBias + ((kShift + 1) << 23));
  const std::uint32_t small = as_bits(as_float(magnitude) + kStep) - as_bits(kStep);
  std::uint32_t code = magnitude < kBias + (1U << 23) ? small : normal;
  // The first magnitude that rounds past the largest code; `normal` wraps for subnormals, so the
  // code itself cannot be compared.
  constexpr std::uint32_t kTooLarge = kBias + (kLargestCode << kShift) + (1U << (kShift - 1));
  code = magnitude > kTooLarge || (magnitude == kTooLarge && (kLargestCode & 1) == 1) ? kOverflow
                                                                                      : code;
  if constexpr (kHasInf) {
    code = magnitude == 0x7f800000U ? kTop : code;
    const std::uint32_t payload = (magnitude >> kShift) & ((1U << kMan) - 1);
    code = magnitude > 0x7f800000U ? (kTop | (1U << (kMan - 1)) | payload) : code;
  } else {
    code = magnitude > 0x7f800000U ? kAll : code;
  }
  return code | (bits >> 31) << (kExp + kMan);
}

GRAFT_INLINE float from_f16(std::uint32_t code) {
  return from_minifloat<5, 10, true>(code);
}

// A block scale to f16, saturating: encoders compute finite scales and must store finite ones.
GRAFT_INLINE quant::F16Bits scale_to_f16(float value) {
  return static_cast<quant::F16Bits>(to_minifloat<5, 10, true, true>(value));
}

// 1 / d, or 0 for a scale of zero, so that all codes become zero.
GRAFT_INLINE float inverse(float d) {
  return d != 0.0F ? 1.0F / d : 0.0F;
}

template <class Block>
GRAFT_INLINE const Block* blocks(const std::byte* in) {
  return reinterpret_cast<const Block*>(in);
}

template <class Block>
GRAFT_INLINE Block* blocks(std::byte* out) {
  return reinterpret_cast<Block*>(out);
}

}  // namespace
