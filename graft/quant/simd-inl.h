// Vectors of 16 lanes and the conversions the codecs share. Re-includable: no pragma once, no std
// headers; the includer brings graft/quant/blocks.h first. The lane count and the order of every sum
// are fixed, so each instruction set gives the same bits. No lambdas and nothing from std:: in
// functions here: g++ compiles those for the baseline even inside a target region.

#define GRAFT_INLINE inline __attribute__((always_inline))

namespace {

typedef float F32x16 __attribute__((vector_size(64)));         // NOLINT(modernize-use-using)
typedef std::int32_t I32x16 __attribute__((vector_size(64)));  // NOLINT(modernize-use-using)
typedef std::uint8_t U8x16 __attribute__((vector_size(16)));   // NOLINT(modernize-use-using)

inline constexpr int kLanes = 16;

// What an encoder with an f16 scale reads instead of larger values. Beyond what the scale can hold
// in any type, and small enough that the fourth powers in the scale search stay finite.
inline constexpr float kLargest = 1e8F;
// Blocks whose values are all smaller become zeros: no type with an f16 scale can tell them from it.
inline constexpr float kSmallest = 1e-9F;

GRAFT_INLINE float as_float(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

GRAFT_INLINE std::uint32_t as_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

GRAFT_INLINE F32x16 splat(float value) {
  return F32x16{} + value;
}

GRAFT_INLINE F32x16 load(const float* from) {
  F32x16 v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

GRAFT_INLINE void store(float* to, F32x16 v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

GRAFT_INLINE F32x16 vmin(F32x16 a, F32x16 b) {
  return a < b ? a : b;
}

GRAFT_INLINE F32x16 vmax(F32x16 a, F32x16 b) {
  return a > b ? a : b;
}

GRAFT_INLINE F32x16 vabs(F32x16 v) {
  return reinterpret_cast<F32x16>(reinterpret_cast<I32x16>(v) & 0x7fffffff);
}

GRAFT_INLINE F32x16 clamp(F32x16 v, float low, float high) {
  return vmin(vmax(v, splat(low)), splat(high));
}

// Nearest whole number, ties to even; exact for |v| < 2^22. The sum pushes the fraction out.
GRAFT_INLINE F32x16 round_even(F32x16 v) {
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23
  return (v + kShift) - kShift;
}

GRAFT_INLINE float round_even(float v) {
  constexpr float kShift = 12582912.0F;
  return (v + kShift) - kShift;
}

GRAFT_INLINE float sum(F32x16 v) {
  float t[kLanes];
  store(t, v);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) t[i] += t[i + half];
  }
  return t[0];
}

GRAFT_INLINE float max_lane(F32x16 v) {
  float t[kLanes];
  store(t, v);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
  }
  return t[0];
}

GRAFT_INLINE float min_lane(F32x16 v) {
  return -max_lane(-v);
}

// Values as the encoders see them: NaN reads as 0, infinities and giants as +-kLargest.
GRAFT_INLINE F32x16 load_sane(const float* from) {
  const F32x16 v = load(from);
  return clamp(v == v ? v : F32x16{}, -kLargest, kLargest);
}

// Whole numbers in 0..255 to bytes.
GRAFT_INLINE U8x16 to_bytes(F32x16 v) {
  return __builtin_convertvector(__builtin_convertvector(v, I32x16), U8x16);
}

GRAFT_INLINE void store(std::uint8_t* to, U8x16 v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

// A float with kExp exponent and kMan mantissa bits (sign on top), exactly. With kHasInf the top
// exponent holds infinity and NaNs; without, only all ones is NaN. NaNs come out quiet.
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
  // Without exponent the mantissa counts in steps of the smallest number: add one, subtract one.
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

// Rounds to nearest even. A finite value too large becomes the infinity of the type or, with
// kSaturate, its largest number; infinity stays infinity where the type has one. NaN stays NaN.
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
  // Below the normal numbers: adding the power of two whose last bit is the smallest step rounds.
  constexpr float kStep = __builtin_bit_cast(float, kBias + ((kShift + 1) << 23));
  const std::uint32_t small = as_bits(as_float(magnitude) + kStep) - as_bits(kStep);
  std::uint32_t code = magnitude < kBias + (1U << 23) ? small : normal;
  // From here on the rounded code is past the largest; the wrapped ones of small numbers are not.
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

// The scale of a block, saturated: encoders give finite scales and write finite scales.
GRAFT_INLINE quant::F16Bits scale_to_f16(float value) {
  return static_cast<quant::F16Bits>(to_minifloat<5, 10, true, true>(value));
}

// 1 / d, or 0 for a scale of zero, which then gives quants of zero.
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
