// Integer dot products of weight blocks with int8 activations (Q8Rows). kLanesPerBlock lanes share
// a block; each lane takes one slice of it. Every format defines
//
//    kLanesPerBlock               slices of a block
//    Weights, weights()           a slice of weights, unpacked to int8x4 words
//    Activations, activations()   the activations it is multiplied with
//    add_dot()                    sum + the dot product: dp4a, then FMAs with the scales
//
// The FMAs have a fixed order, for the same bits in every kernel.

#pragma once

#include "graft/kernels/cuda/formats/formats_k.cuh"

namespace graft::kernels::cuda {

// The activations of a row from the block's first value on: int8 quants, and (scale, scale * sum of
// quants) per group of 32.
struct Q8Block {
  const std::int8_t* quants;
  const float2* scales;
};

__device__ inline int dot_words(const int* a, const int* b, int count) {
  int sum = 0;
  GRAFT_UNROLL
  for (int i = 0; i < count; ++i)
    sum = __dp4a(a[i], b[i], sum);
  return sum;
}

__device__ inline void load_16(const void* from, int (&to)[4]) {
  const int4 words = *static_cast<const int4*>(from);
  to[0] = words.x;
  to[1] = words.y;
  to[2] = words.z;
  to[3] = words.w;
}

__device__ inline void load_8(const void* from, int (&to)[2]) {
  const int2 words = *static_cast<const int2*>(from);
  to[0] = words.x;
  to[1] = words.y;
}

// Q4_K and Q5_K: value = d * scale * q - dmin * min. A slice is 16 bytes of quants: 16 values of
// sub-block 2 g in the low nibbles and 16 of sub-block 2 g + 1 in the high ones. The even slice of
// each pair subtracts the minimums of both sub-blocks.
template <class Format, bool kHasHighBits>
struct DotWithMin {
  using FormatType = Format;
  static constexpr int kLanesPerBlock = 8;

  struct Weights {
    int low[4];
    int high[4];
    float2 scales;
    float2 mins;
  };
  struct Activations {
    int low[4];
    int high[4];
    float2 first;   // (scale, scale * sum) of the low sub-block's group
    float2 second;  // of the high sub-block's group
  };

  static __device__ Weights weights(const std::uint8_t* block, int slice) {
    Weights w;
    const int pair = slice / 2;
    int header[4];  // d and dmin as F16, then 12 bytes of scales
    int quants[4];
    load_16(block, header);
    load_16(block + (kHasHighBits ? 48 : 16) + 16 * slice, quants);
    const auto halves = static_cast<std::uint32_t>(header[0]);
    const float d = f16_to_float(halves & 0xffff);
    const float dmin = f16_to_float(halves >> 16);
    const ScalePair pair_scales = unpack(header, pair);
    w.scales = make_float2(d * static_cast<float>(pair_scales.scales & 255),
                           d * static_cast<float>(pair_scales.scales >> 8));
    w.mins = make_float2(dmin * static_cast<float>(pair_scales.mins & 255),
                         dmin * static_cast<float>(pair_scales.mins >> 8));
    int high_bits[4] = {0, 0, 0, 0};
    if constexpr (kHasHighBits) load_16(block + 16 + slice % 2 * 16, high_bits);
    GRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      w.low[i] = quants[i] & 0x0f0f0f0f;
      w.high[i] = quants[i] >> 4 & 0x0f0f0f0f;
      if constexpr (kHasHighBits) {
        w.low[i] |= (high_bits[i] >> (2 * pair) & 0x01010101) << 4;
        w.high[i] |= (high_bits[i] >> (2 * pair + 1) & 0x01010101) << 4;
      }
    }
    return w;
  }

  static __device__ Activations activations(const Q8Block& x, int slice) {
    Activations b;
    const int pair = slice / 2;
    const std::int8_t* quants = x.quants + 64 * pair + slice % 2 * 16;
    load_16(quants, b.low);
    load_16(quants + 32, b.high);
    b.first = x.scales[2 * pair];
    b.second = x.scales[2 * pair + 1];
    if (slice % 2 != 0) b.first.y = b.second.y = 0.0F;
    return b;
  }

  static __device__ float add_dot(float sum, const Weights& w, const Activations& b) {
    const auto low = static_cast<float>(dot_words(w.low, b.low, 4));
    const auto high = static_cast<float>(dot_words(w.high, b.high, 4));
    sum = fmaf(__fmul_rn(w.scales.x, b.first.x), low, sum);
    sum = fmaf(-w.mins.x, b.first.y, sum);
    sum = fmaf(__fmul_rn(w.scales.y, b.second.x), high, sum);
    return fmaf(-w.mins.y, b.second.y, sum);
  }

 private:
  // 6-bit scales and mins of two sub-blocks, in the two low bytes.
  struct ScalePair {
    std::uint32_t scales;
    std::uint32_t mins;
  };

  // scale_and_min() of formats_k.cuh for two sub-blocks; header[1..3] hold the 12 packed bytes.
  static __device__ ScalePair unpack(const int (&header)[4], int pair) {
    const int shift = pair % 2 * 16;
    const std::uint32_t scales = static_cast<std::uint32_t>(header[1]) >> shift;
    const std::uint32_t mins = static_cast<std::uint32_t>(header[2]) >> shift;
    const std::uint32_t both = static_cast<std::uint32_t>(header[3]) >> shift;
    // Masks instead of a branch, behind which the loads of other blocks would wait.
    const std::uint32_t upper_half = 0U - static_cast<std::uint32_t>(pair / 2);
    const std::uint32_t low = 0x3f3fU ^ (upper_half & 0x3030U);
    const std::uint32_t high = upper_half & 0x3030U;
    return {(((scales & ~upper_half) | (both & upper_half)) & low) | (scales >> 2 & high),
            (((mins & ~upper_half) | (both >> 4 & upper_half)) & low) | (mins >> 2 & high)};
  }
};
using DotQ4K = DotWithMin<FormatQ4K, false>;
using DotQ5K = DotWithMin<FormatQ5K, true>;

// Q6_K: a slice is 8 bytes of low nibbles: values 128 h + 8 j … + 7 in the low nibbles and those 64
// later in the high ones.
struct DotQ6K {
  using FormatType = FormatQ6K;
  static constexpr int kLanesPerBlock = 16;

  struct Weights {
    int low[2];
    int high[2];
    float2 scales;
  };
  struct Activations {
    int low[2];
    int high[2];
    float2 x_scales;
  };

  static __device__ Weights weights(const std::uint8_t* block, int slice) {
    Weights w;
    const int half = slice / 8;
    const int j = slice % 8;
    const uint2 nibbles = load_8_bytes<2>(block + 64 * half + 8 * j);
    const uint2 upper = load_8_bytes<2>(block + 128 + 32 * half + j % 4 * 8);
    const int shift = j / 4 * 2;
    w.low[0] = subtract_32(nibbles.x, upper.x >> shift);
    w.low[1] = subtract_32(nibbles.y, upper.y >> shift);
    w.high[0] = subtract_32(nibbles.x >> 4, upper.x >> (shift + 4));
    w.high[1] = subtract_32(nibbles.y >> 4, upper.y >> (shift + 4));
    const std::uint8_t* scales = block + 192 + 8 * half + j / 2;
    const float d = load_f16(block + 208);
    w.scales = make_float2(d * static_cast<float>(static_cast<std::int8_t>(scales[0])),
                           d * static_cast<float>(static_cast<std::int8_t>(scales[4])));
    return w;
  }

  static __device__ Activations activations(const Q8Block& x, int slice) {
    Activations b;
    const int first = slice / 8 * 128 + slice % 8 * 8;
    load_8(x.quants + first, b.low);
    load_8(x.quants + first + 64, b.high);
    b.x_scales = make_float2(x.scales[first / 32].x, x.scales[first / 32 + 2].x);
    return b;
  }

  static __device__ float add_dot(float sum, const Weights& w, const Activations& b) {
    const auto low = static_cast<float>(dot_words(w.low, b.low, 2));
    const auto high = static_cast<float>(dot_words(w.high, b.high, 2));
    sum = fmaf(__fmul_rn(w.scales.x, b.x_scales.x), low, sum);
    return fmaf(__fmul_rn(w.scales.y, b.x_scales.y), high, sum);
  }

 private:
  // Four 6-bit codes minus 32 as int8x4. Bit 7 is set before and flipped after, so that no byte
  // borrows from the next.
  static __device__ int subtract_32(std::uint32_t nibbles, std::uint32_t upper) {
    const std::uint32_t codes = (nibbles & 0x0f0f0f0fU) | (upper & 0x03030303U) << 4;
    return static_cast<int>(((codes | 0x80808080U) - 0x20202020U) ^ 0x80808080U);
  }
};

// Q8_0: a slice is 8 values.
struct DotQ80 {
  using FormatType = FormatQ80;
  static constexpr int kLanesPerBlock = 4;

  struct Weights {
    int quants[2];
    float d;
  };
  struct Activations {
    int quants[2];
    float x_scale;
  };

  static __device__ Weights weights(const std::uint8_t* block, int slice) {
    const uint2 q = load_8_bytes<2>(block + 2 + 8 * slice);
    return {{static_cast<int>(q.x), static_cast<int>(q.y)}, load_f16(block)};
  }

  static __device__ Activations activations(const Q8Block& x, int slice) {
    Activations b;
    load_8(x.quants + 8 * slice, b.quants);
    b.x_scale = x.scales[0].x;
    return b;
  }

  static __device__ float add_dot(float sum, const Weights& w, const Activations& b) {
    const auto product = static_cast<float>(dot_words(w.quants, b.quants, 2));
    return fmaf(__fmul_rn(w.d, b.x_scale), product, sum);
  }
};

// Blocks of 32 nibbles. A slice is 8 bytes: values i … i + 7 in the low nibbles, those 16 later in
// the high ones. The constant of every value (the minimum, or -kOffset * d) is multiplied with the
// sum of x by the first slice.
//
//    kQuants     byte offset of the nibbles
//    kHighBits   byte offset of the fifth bits; 0: none
//    kOffset     subtracted from every code; 0: the block has a minimum
template <class Format, int kQuants, int kHighBits, int kOffset>
struct DotNibbles {
  using FormatType = Format;
  static constexpr int kLanesPerBlock = 2;

  struct Weights {
    int low[2];
    int high[2];
    float d;
    float min;
  };
  struct Activations {
    int low[2];
    int high[2];
    float x_scale;
    float sum;
  };

  static __device__ Weights weights(const std::uint8_t* block, int slice) {
    constexpr int kAlign = Format::kAlign < 8 ? Format::kAlign : 8;
    const uint2 q = load_8_bytes<kAlign>(block + kQuants + 8 * slice);
    Weights w = {
        {static_cast<int>(q.x & 0x0f0f0f0fU), static_cast<int>(q.y & 0x0f0f0f0fU)},
        {static_cast<int>(q.x >> 4 & 0x0f0f0f0fU), static_cast<int>(q.y >> 4 & 0x0f0f0f0fU)},
        load_f16(block),
        kOffset == 0 ? load_f16(block + 2) : 0.0F};
    if constexpr (kHighBits != 0) {
      const std::uint32_t low = block[kHighBits + slice];
      const std::uint32_t high = block[kHighBits + 2 + slice];
      w.low[0] |= spread_bits(low & 15);
      w.low[1] |= spread_bits(low >> 4);
      w.high[0] |= spread_bits(high & 15);
      w.high[1] |= spread_bits(high >> 4);
    }
    return w;
  }

  static __device__ Activations activations(const Q8Block& x, int slice) {
    Activations b;
    load_8(x.quants + 8 * slice, b.low);
    load_8(x.quants + 8 * slice + 16, b.high);
    b.x_scale = x.scales[0].x;
    b.sum = slice == 0 ? x.scales[0].y : 0.0F;
    return b;
  }

  static __device__ float add_dot(float sum, const Weights& w, const Activations& b) {
    const auto product =
        static_cast<float>(dot_words(w.low, b.low, 2) + dot_words(w.high, b.high, 2));
    if constexpr (kOffset == 0) {
      return fmaf(w.min, b.sum, fmaf(__fmul_rn(w.d, b.x_scale), product, sum));
    }
    return fmaf(w.d, fmaf(b.x_scale, product, __fmul_rn(-static_cast<float>(kOffset), b.sum)), sum);
  }

 private:
  // Moves bit i of four to bit 4 of byte i; the shifted copies do not overlap.
  static __device__ int spread_bits(std::uint32_t bits) {
    return static_cast<int>(bits * 0x02040810U & 0x10101010U);
  }
};
using DotQ40 = DotNibbles<FormatQ40, 2, 0, 8>;
using DotQ41 = DotNibbles<FormatQ41, 4, 0, 0>;
using DotQ50 = DotNibbles<FormatQ50, 6, 2, 16>;
using DotQ51 = DotNibbles<FormatQ51, 8, 4, 0>;

// IQ4_NL: nibbles as in DotNibbles, but indices into a table of int8 values.
struct DotIq4Nl {
  using FormatType = FormatIq4Nl;
  static constexpr int kLanesPerBlock = 2;

  struct Weights {
    int low[2];
    int high[2];
    float d;
  };
  struct Activations {
    int low[2];
    int high[2];
    float x_scale;
  };

  static __device__ Weights weights(const std::uint8_t* block, int slice) {
    const uint2 q = load_8_bytes<2>(block + 2 + 8 * slice);
    Weights w;
    look_up(q.x, w.low[0], w.high[0]);
    look_up(q.y, w.low[1], w.high[1]);
    w.d = load_f16(block);
    return w;
  }

  static __device__ Activations activations(const Q8Block& x, int slice) {
    Activations b;
    load_8(x.quants + 8 * slice, b.low);
    load_8(x.quants + 8 * slice + 16, b.high);
    b.x_scale = x.scales[0].x;
    return b;
  }

  static __device__ float add_dot(float sum, const Weights& w, const Activations& b) {
    const auto product =
        static_cast<float>(dot_words(w.low, b.low, 2) + dot_words(w.high, b.high, 2));
    return fmaf(__fmul_rn(w.d, b.x_scale), product, sum);
  }

 private:
  static constexpr std::uint32_t kFrom0 = packed_iq4_values(0);
  static constexpr std::uint32_t kFrom4 = packed_iq4_values(4);
  static constexpr std::uint32_t kFrom8 = packed_iq4_values(8);
  static constexpr std::uint32_t kFrom12 = packed_iq4_values(12);

  // Table values of four nibbles: looks up both halves of the table, then selects by bit 3.
  static __device__ std::uint32_t look_up_4(std::uint32_t nibbles) {
    const std::uint32_t places = nibbles & 0x7777;
    const std::uint32_t lower = __byte_perm(kFrom0, kFrom4, places);
    const std::uint32_t upper = __byte_perm(kFrom8, kFrom12, places);
    return __byte_perm(lower, upper, 0x3210 | (nibbles & 0x8888) >> 1);
  }

  static __device__ void look_up(std::uint32_t nibbles, int& low, int& high) {
    const std::uint32_t first = look_up_4(nibbles);
    const std::uint32_t second = look_up_4(nibbles >> 16);
    low = static_cast<int>(__byte_perm(first, second, 0x6420));
    high = static_cast<int>(__byte_perm(first, second, 0x7531));
  }
};

}  // namespace graft::kernels::cuda
