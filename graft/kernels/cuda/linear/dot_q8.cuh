// Dot products of blocks of weights with rows of bytes. A block is cut into pieces, one per lane;
// each type has
//   kPieces             pieces of a block
//   Weights, weights()  a piece of a block, unpacked to words of four small numbers
//   Bytes, bytes()      what it is multiplied with
//   add_dot()           sum + the product: whole numbers, then fused products with the scales, in
//                       so many words, for the same bits in every kernel

#pragma once

#include "graft/kernels/cuda/formats/formats_k.cuh"

namespace graft::kernels::cuda {

// The bytes of a row of x from a block's first value on, and the pairs (d, d times sum) of its
// groups of 32.
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

// Q4_K and Q5_K. A piece is 16 bytes of quants: half of sub-block 2 g in their low nibbles, half of
// sub-block 2 g + 1 in the high ones. The minimums are taken off by the first half of each.
template <class Format, bool kFifthBits>
struct DotWithMinimum {
  using FormatType = Format;
  static constexpr int kPieces = 8;

  struct Weights {
    int low[4];
    int high[4];
    float2 scales;
    float2 mins;
  };
  struct Bytes {
    int low[4];
    int high[4];
    float2 first;   // of the low sub-block
    float2 second;  // of the high one
  };

  static __device__ Weights weights(const std::uint8_t* block, int piece) {
    Weights w;
    const int pair = piece / 2;
    int header[4];  // d and dmin, then twelve bytes of scales
    int quants[4];
    load_16(block, header);
    load_16(block + (kFifthBits ? 48 : 16) + 16 * piece, quants);
    const auto halves = static_cast<std::uint32_t>(header[0]);
    const float d = f16_to_float(halves & 0xffff);
    const float dmin = f16_to_float(halves >> 16);
    const TwoScales two = unpack(header, pair);
    w.scales = make_float2(d * static_cast<float>(two.scales & 255),
                           d * static_cast<float>(two.scales >> 8));
    w.mins = make_float2(dmin * static_cast<float>(two.mins & 255),
                         dmin * static_cast<float>(two.mins >> 8));
    int fifth[4] = {0, 0, 0, 0};
    if constexpr (kFifthBits) load_16(block + 16 + piece % 2 * 16, fifth);
    GRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      w.low[i] = quants[i] & 0x0f0f0f0f;
      w.high[i] = quants[i] >> 4 & 0x0f0f0f0f;
      if constexpr (kFifthBits) {
        w.low[i] |= (fifth[i] >> (2 * pair) & 0x01010101) << 4;
        w.high[i] |= (fifth[i] >> (2 * pair + 1) & 0x01010101) << 4;
      }
    }
    return w;
  }

  static __device__ Bytes bytes(const Q8Block& x, int piece) {
    Bytes b;
    const int pair = piece / 2;
    const std::int8_t* quants = x.quants + 64 * pair + piece % 2 * 16;
    load_16(quants, b.low);
    load_16(quants + 32, b.high);
    b.first = x.scales[2 * pair];
    b.second = x.scales[2 * pair + 1];
    if (piece % 2 != 0) b.first.y = b.second.y = 0.0F;
    return b;
  }

  static __device__ float add_dot(float sum, const Weights& w, const Bytes& b) {
    const auto low = static_cast<float>(dot_words(w.low, b.low, 4));
    const auto high = static_cast<float>(dot_words(w.high, b.high, 4));
    sum = fmaf(__fmul_rn(w.scales.x, b.first.x), low, sum);
    sum = fmaf(-w.mins.x, b.first.y, sum);
    sum = fmaf(__fmul_rn(w.scales.y, b.second.x), high, sum);
    return fmaf(-w.mins.y, b.second.y, sum);
  }

 private:
  // Those of a pair of sub-blocks, in the two low bytes.
  struct TwoScales {
    std::uint32_t scales;
    std::uint32_t mins;
  };

  // scale_and_min() of formats_k.cuh for two at once: header[1..3] hold the twelve bytes.
  static __device__ TwoScales unpack(const int (&header)[4], int pair) {
    const int shift = pair % 2 * 16;
    const std::uint32_t scales = static_cast<std::uint32_t>(header[1]) >> shift;
    const std::uint32_t mins = static_cast<std::uint32_t>(header[2]) >> shift;
    const std::uint32_t both = static_cast<std::uint32_t>(header[3]) >> shift;
    // Masks, not a condition: behind a branch the loads of other blocks would have to wait.
    const std::uint32_t late = 0U - static_cast<std::uint32_t>(pair / 2);
    const std::uint32_t low = 0x3f3fU ^ (late & 0x3030U);
    const std::uint32_t high = late & 0x3030U;
    return {(((scales & ~late) | (both & late)) & low) | (scales >> 2 & high),
            (((mins & ~late) | (both >> 4 & late)) & low) | (mins >> 2 & high)};
  }
};
using DotQ4K = DotWithMinimum<FormatQ4K, false>;
using DotQ5K = DotWithMinimum<FormatQ5K, true>;

// A piece is eight bytes of `low`: values 128 h + 8 j … + 7 in the low nibbles and those 64 later.
struct DotQ6K {
  using FormatType = FormatQ6K;
  static constexpr int kPieces = 16;

  struct Weights {
    int low[2];
    int high[2];
    float2 scales;
  };
  struct Bytes {
    int low[2];
    int high[2];
    float2 steps;
  };

  static __device__ Weights weights(const std::uint8_t* block, int piece) {
    Weights w;
    const int half = piece / 8;
    const int j = piece % 8;
    const uint2 nibbles = load_8_bytes<2>(block + 64 * half + 8 * j);
    const uint2 upper = load_8_bytes<2>(block + 128 + 32 * half + j % 4 * 8);
    const int shift = j / 4 * 2;
    w.low[0] = centered(nibbles.x, upper.x >> shift);
    w.low[1] = centered(nibbles.y, upper.y >> shift);
    w.high[0] = centered(nibbles.x >> 4, upper.x >> (shift + 4));
    w.high[1] = centered(nibbles.y >> 4, upper.y >> (shift + 4));
    const std::uint8_t* scales = block + 192 + 8 * half + j / 2;
    const float d = load_f16(block + 208);
    w.scales = make_float2(d * static_cast<float>(static_cast<std::int8_t>(scales[0])),
                           d * static_cast<float>(static_cast<std::int8_t>(scales[4])));
    return w;
  }

  static __device__ Bytes bytes(const Q8Block& x, int piece) {
    Bytes b;
    const int first = piece / 8 * 128 + piece % 8 * 8;
    load_8(x.quants + first, b.low);
    load_8(x.quants + first + 64, b.high);
    b.steps = make_float2(x.scales[first / 32].x, x.scales[first / 32 + 2].x);
    return b;
  }

  static __device__ float add_dot(float sum, const Weights& w, const Bytes& b) {
    const auto low = static_cast<float>(dot_words(w.low, b.low, 2));
    const auto high = static_cast<float>(dot_words(w.high, b.high, 2));
    sum = fmaf(__fmul_rn(w.scales.x, b.steps.x), low, sum);
    return fmaf(__fmul_rn(w.scales.y, b.steps.y), high, sum);
  }

 private:
  // Four codes of six bits less 32, as signed bytes. The subtraction does not borrow from byte to
  // byte: each has its bit 7 set before and flipped back after.
  static __device__ int centered(std::uint32_t nibbles, std::uint32_t upper) {
    const std::uint32_t codes = (nibbles & 0x0f0f0f0fU) | (upper & 0x03030303U) << 4;
    return static_cast<int>(((codes | 0x80808080U) - 0x20202020U) ^ 0x80808080U);
  }
};

// A piece is eight values.
struct DotQ80 {
  using FormatType = FormatQ80;
  static constexpr int kPieces = 4;

  struct Weights {
    int quants[2];
    float d;
  };
  struct Bytes {
    int quants[2];
    float step;
  };

  static __device__ Weights weights(const std::uint8_t* block, int piece) {
    const uint2 q = load_8_bytes<2>(block + 2 + 8 * piece);
    return {{static_cast<int>(q.x), static_cast<int>(q.y)}, load_f16(block)};
  }

  static __device__ Bytes bytes(const Q8Block& x, int piece) {
    Bytes b;
    load_8(x.quants + 8 * piece, b.quants);
    b.step = x.scales[0].x;
    return b;
  }

  static __device__ float add_dot(float sum, const Weights& w, const Bytes& b) {
    const auto product = static_cast<float>(dot_words(w.quants, b.quants, 2));
    return fmaf(__fmul_rn(w.d, b.step), product, sum);
  }
};

// The types of 32 values in nibbles. A piece is eight bytes: values i … i + 7 in the low nibbles,
// those 16 later in the high ones. What is added to every value of a block, a minimum or, where
// kLess is not 0, d times -kLess, is multiplied by the first piece with the sum of x.
//   kQuants  where the nibbles begin
//   kFifth   where the fifth bits of all values do; 0: there are none
template <class Format, int kQuants, int kFifth, int kLess>
struct DotNibbles {
  using FormatType = Format;
  static constexpr int kPieces = 2;

  struct Weights {
    int low[2];
    int high[2];
    float d;
    float min;
  };
  struct Bytes {
    int low[2];
    int high[2];
    float step;
    float sum;
  };

  static __device__ Weights weights(const std::uint8_t* block, int piece) {
    constexpr int kAlign = Format::kAlign < 8 ? Format::kAlign : 8;
    const uint2 q = load_8_bytes<kAlign>(block + kQuants + 8 * piece);
    Weights w = {
        {static_cast<int>(q.x & 0x0f0f0f0fU), static_cast<int>(q.y & 0x0f0f0f0fU)},
        {static_cast<int>(q.x >> 4 & 0x0f0f0f0fU), static_cast<int>(q.y >> 4 & 0x0f0f0f0fU)},
        load_f16(block),
        kLess == 0 ? load_f16(block + 2) : 0.0F};
    if constexpr (kFifth != 0) {
      const std::uint32_t low = block[kFifth + piece];
      const std::uint32_t high = block[kFifth + 2 + piece];
      w.low[0] |= fifth_bits(low & 15);
      w.low[1] |= fifth_bits(low >> 4);
      w.high[0] |= fifth_bits(high & 15);
      w.high[1] |= fifth_bits(high >> 4);
    }
    return w;
  }

  static __device__ Bytes bytes(const Q8Block& x, int piece) {
    Bytes b;
    load_8(x.quants + 8 * piece, b.low);
    load_8(x.quants + 8 * piece + 16, b.high);
    b.step = x.scales[0].x;
    b.sum = piece == 0 ? x.scales[0].y : 0.0F;
    return b;
  }

  static __device__ float add_dot(float sum, const Weights& w, const Bytes& b) {
    const auto product =
        static_cast<float>(dot_words(w.low, b.low, 2) + dot_words(w.high, b.high, 2));
    if constexpr (kLess == 0) {
      return fmaf(w.min, b.sum, fmaf(__fmul_rn(w.d, b.step), product, sum));
    }
    return fmaf(w.d, fmaf(b.step, product, __fmul_rn(-static_cast<float>(kLess), b.sum)), sum);
  }

 private:
  // Bit i of four to bit 4 of byte i: copies 7 places apart do not meet.
  static __device__ int fifth_bits(std::uint32_t bits) {
    return static_cast<int>(bits * 0x02040810U & 0x10101010U);
  }
};
using DotQ40 = DotNibbles<FormatQ40, 2, 0, 8>;
using DotQ41 = DotNibbles<FormatQ41, 4, 0, 0>;
using DotQ50 = DotNibbles<FormatQ50, 6, 2, 16>;
using DotQ51 = DotNibbles<FormatQ51, 8, 4, 0>;

// The same places, and nibbles that stand for the values of a table.
struct DotIq4Nl {
  using FormatType = FormatIq4Nl;
  static constexpr int kPieces = 2;

  struct Weights {
    int low[2];
    int high[2];
    float d;
  };
  struct Bytes {
    int low[2];
    int high[2];
    float step;
  };

  static __device__ Weights weights(const std::uint8_t* block, int piece) {
    const uint2 q = load_8_bytes<2>(block + 2 + 8 * piece);
    Weights w;
    look_up(q.x, w.low[0], w.high[0]);
    look_up(q.y, w.low[1], w.high[1]);
    w.d = load_f16(block);
    return w;
  }

  static __device__ Bytes bytes(const Q8Block& x, int piece) {
    Bytes b;
    load_8(x.quants + 8 * piece, b.low);
    load_8(x.quants + 8 * piece + 16, b.high);
    b.step = x.scales[0].x;
    return b;
  }

  static __device__ float add_dot(float sum, const Weights& w, const Bytes& b) {
    const auto product =
        static_cast<float>(dot_words(w.low, b.low, 2) + dot_words(w.high, b.high, 2));
    return fmaf(__fmul_rn(w.d, b.step), product, sum);
  }

 private:
  static constexpr std::uint32_t kFrom0 = packed_iq4_values(0);
  static constexpr std::uint32_t kFrom4 = packed_iq4_values(4);
  static constexpr std::uint32_t kFrom8 = packed_iq4_values(8);
  static constexpr std::uint32_t kFrom12 = packed_iq4_values(12);

  // The bytes for four nibbles: of either half of the table, then the right one of the two.
  static __device__ std::uint32_t look_up_four(std::uint32_t nibbles) {
    const std::uint32_t places = nibbles & 0x7777;
    const std::uint32_t lower = __byte_perm(kFrom0, kFrom4, places);
    const std::uint32_t upper = __byte_perm(kFrom8, kFrom12, places);
    return __byte_perm(lower, upper, 0x3210 | (nibbles & 0x8888) >> 1);
  }

  static __device__ void look_up(std::uint32_t nibbles, int& low, int& high) {
    const std::uint32_t first = look_up_four(nibbles);
    const std::uint32_t second = look_up_four(nibbles >> 16);
    low = static_cast<int>(__byte_perm(first, second, 0x6420));
    high = static_cast<int>(__byte_perm(first, second, 0x7531));
  }
};

}  // namespace graft::kernels::cuda
