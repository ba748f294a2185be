// The codes of a panel (graft/packing/panel_layout.h) as operands of mma.m16n8k16, over a step of
// 128 columns = 4 blocks of 32. Integer scales (types with super-blocks) are multiplied into the
// codes, d and other scales are not: they go onto the f32 sums (panel_step.cuh).
//
// Lane 4 g + t of a warp has rows 2 g and 2 g + 1 of the panel, which are rows g and g + 8 of the
// mma, and of each block columns 4 t .. 4 t + 3 and those 16 further. They lie in one word (4 bits)
// or two (8 bits) per row:
//
//     line t of a block, bytes 8 g .. 8 g + 7      row 2 g: word x      row 2 g + 1: word y
//     byte b of a word                             columns 4 t + b (bits 0..3), 16 + 4 t + b (4..7)
//
// Codes are not converted: an integer in the lowest bits of an F16 is a subnormal number, code *
// 2^-24, which tensor cores multiply exactly. Nibbles 4..7 stay where they are and count 16 fold;
// the rows of x hold columns 16..31 divided by 16 (PanelRows). Offsets and mins are the product of
// scales or mins with the sums of x: one more mma per step. Codes of 8 bits, those from tables and
// those of super-blocks with an offset become signed halves with one subtraction and need no sums.
//
// A code times its integer scale is exact in F16, but for Q6_K and IQ4_XS, where products beyond
// 2048 are rounded to 11 bits. Signed ones are divided by kScaleUnit: 16 * 32 * 128 would overflow.

#pragma once

#include <cuda_fp16.h>

#include "graft/kernels/cuda/formats/panel_blocks.cuh"

namespace graft::kernels::cuda {

inline constexpr int kPanelStepCols = 128;
inline constexpr int kPanelStepBlocks = kPanelStepCols / kPanelBlockCols;
// The sums of 16 values up to 2^14, divided by this, fit F16.
inline constexpr float kPanelSumUnit = 16.0F;

__device__ inline std::uint32_t half_bits(__half2 pair) {
  return reinterpret_cast<const std::uint32_t&>(pair);
}

__device__ inline __half2 half_pair(std::uint32_t bits) {
  return reinterpret_cast<const __half2&>(bits);
}

// (word & mask) | bits in one instruction: with constants the compiler makes two.
__device__ inline std::uint32_t masked_or(std::uint32_t word,
                                          std::uint32_t mask,
                                          std::uint32_t bits) {
  std::uint32_t result = 0;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
  return result;
}

template <class T>
__device__ T load_as(const std::uint8_t* from) {
  return *reinterpret_cast<const T*>(from);
}

// Constants of a type.
template <DType kType>
struct PanelSteps {
  using Layout = PanelLayout<kType>;
  static constexpr PackedFormat kFormat = Layout::kFormat;
  static constexpr bool kIsSuper = Layout::kHasSuperBlocks;
  static constexpr bool kIsPlain = kFormat.codes == PackedFormat::Codes::Plain;
  // By a subtraction.
  static constexpr bool kIsSigned =
      kFormat.bits == 8 || !kIsPlain || (kIsSuper && kFormat.offset != 0);
  static constexpr bool kNeedsSums = !kIsSigned;
  static constexpr bool kHasNibbles = kFormat.scale == PackedFormat::Scale::Nibbles;
  static constexpr bool kHasExponents = kFormat.scale == PackedFormat::Scale::E8M0;
  static constexpr int kBlockGroups = Layout::kBlockGroups;
  // Lines of a block that a lane reads beside line t.
  static constexpr int kMoreLines = kFormat.bits == 3 || kFormat.bits == 6 ? 2
                                    : kFormat.bits == 4                    ? 0
                                                                           : 1;
  static constexpr float kScaleUnit = kIsSuper && kIsSigned ? 4.0F : 1.0F;
  // Codes times integer scales are divided by this in the operands.
  static constexpr float kCodeUnit = kIsSigned ? kScaleUnit : 16777216.0F;
  // The sums of products are weights times x, divided by this.
  static constexpr float kUnit = kIsSuper ? 1.0F : kCodeUnit;
  static constexpr float kMinFactor = (kFormat.has_min ? 1.0F : kFormat.offset) / kCodeUnit;
  // A step in memory: the header of the chunk (types with super-blocks), then four blocks, each
  // with its own header (other types).
  static constexpr int kHeaderBytes = kIsSuper ? Layout::kHeaderBytes : 0;
  static constexpr int kBlockStride = kIsSuper ? Layout::kBlockBytes : Layout::kChunkBytes;
  static constexpr int kCodeBytes = kPanelStepBlocks * kBlockStride;
  static constexpr int kBytes = kHeaderBytes + kCodeBytes;
  // Steps that share a header.
  static constexpr int kChunkSteps = kIsSuper ? 2 : 1;
  static constexpr int kChunkBytes = kHeaderBytes + kChunkSteps * kCodeBytes;
};

// Where a step lies, in shared memory.
struct PanelStepAt {
  const std::uint8_t* header;  // of the chunk; types with super-blocks
  const std::uint8_t* codes;
  int first_block;  // of the step in its chunk: 0 or 4
  int num_blocks;   // that exist, of types without super-blocks: the last step may be short
};

// What a lane needs of one step of a panel.
template <DType kType>
class PanelStep {
 public:
  using Steps = PanelSteps<kType>;

  __device__ PanelStep(const PanelStepAt& at, int g, int t) {
    constexpr int kBlockHeader = Steps::kIsSuper ? 0 : Layout::kHeaderBytes;
    constexpr int kBits = kFormat.bits;
    GRAFT_UNROLL
    for (int b = 0; b < kPanelStepBlocks; ++b) {
      const std::uint8_t* block = at.codes + b * Steps::kBlockStride + kBlockHeader + 8 * g;
      codes_[b] = load_as<uint2>(block + (kBits < 4 ? 0 : kPanelLineBytes * t));
      GRAFT_UNROLL
      for (int i = 0; i < Steps::kMoreLines; ++i) {
        const int line = kBits == 8 ? 4 + t : (kBits < 4 ? 1 : 4) + i;
        more_[b * Steps::kMoreLines + i] = load_as<uint2>(block + kPanelLineBytes * line);
      }
    }
    if constexpr (Steps::kIsSuper) {
      load_super(at, g, t);
    } else {
      load_scales(at, g, t);
    }
  }

  // A operands of block b: a[0] of columns 0..15, a[1] of columns 16..31, which count 16 fold.
  __device__ void operands(int b, int t, std::uint32_t (&a)[2][4]) const {
    GRAFT_UNROLL
    for (int row = 0; row < 2; ++row) {
      std::uint32_t lower[2];
      std::uint32_t upper[2];
      if constexpr (kFormat.bits == 4 && Steps::kIsPlain) {
        const std::uint32_t even = word(codes_[b], row);
        const std::uint32_t odd = even >> 8;
        lower[0] = even & 0x000f000fU;
        lower[1] = odd & 0x000f000fU;
        upper[0] = even & 0x00f000f0U;
        upper[1] = odd & 0x00f000f0U;
      } else if constexpr (kFormat.bits == 8 || !Steps::kIsPlain) {
        byte_operands(b, row, lower, upper);
      } else {
        small_operands(b, row, t, lower, upper);
      }
      if constexpr (Steps::kIsSuper) {
        GRAFT_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int group = b * Steps::kBlockGroups;
          lower[i] = scaled(lower[i], group, row);
          upper[i] = scaled(upper[i], group + Steps::kBlockGroups - 1, row);
        }
      }
      a[0][row] = lower[0];
      a[0][2 + row] = lower[1];
      a[1][row] = upper[0];
      a[1][2 + row] = upper[1];
    }
  }

  // The scales of both rows: of block b, or of the step (types with super-blocks).
  __device__ void scales(int b, float (&out)[2]) const {
    if constexpr (Steps::kIsSuper) {
      const float2 d = __half22float2(half_pair(d_[0]));
      out[0] = d.x * Steps::kCodeUnit;
      out[1] = d.y * Steps::kCodeUnit;
    } else if constexpr (Steps::kHasExponents) {
      // Stored as floats by load_scales().
      out[0] = __uint_as_float(d_[2 * b]);
      out[1] = __uint_as_float(d_[2 * b + 1]);
    } else {
      const float2 d = __half22float2(half_pair(d_[b]));
      out[0] = d.x;
      out[1] = d.y;
    }
  }

  // Types without super-blocks: the A operand beside the sums of x, what is subtracted per group up
  // to kMinFactor. Columns 2 t and 2 t + 1 of the mma are groups of 16 columns; columns 8 .. 15 are
  // the same for the lower halves of the sums.
  __device__ void sums_operand(std::uint32_t (&a)[4]) const {
    a[0] = __byte_perm(mins_[0], 0, 0x1010);
    a[1] = __byte_perm(mins_[0], 0, 0x3232);
    a[2] = a[0];
    a[3] = a[1];
  }

  // Types with super-blocks: a[0] and a[1] of that operand, with dmin and the unit of the sums of x
  // multiplied in, rounded to F16.
  __device__ void mins_operand(std::uint32_t (&a)[2]) const {
    const __half2 unit = __float2half2_rn(-kPanelSumUnit);
    const std::uint32_t dmin = half_bits(__hmul2(half_pair(dmin_), unit));
    GRAFT_UNROLL
    for (int row = 0; row < 2; ++row) {
      // The mins of groups 2 t and 2 t + 1.
      std::uint32_t bytes = 0;
      if constexpr (Steps::kHasNibbles) {
        bytes = __byte_perm((mins_[0] | mins_[1] << 16) >> 4 & 0x0f0f0f0fU, kHalf1024,
                            row == 0 ? 0x4240 : 0x4341);
      } else {
        bytes = __byte_perm(mins_[0], kHalf1024, row == 0 ? 0x4040 : 0x4141);
      }
      const __half2 mins = __hsub2(half_pair(bytes), __float2half2_rn(1024.0F));
      a[row] =
          half_bits(__hmul2(mins, half_pair(__byte_perm(dmin, 0, row == 0 ? 0x1010 : 0x3232))));
    }
  }

 private:
  using Layout = PanelLayout<kType>;
  static constexpr PackedFormat kFormat = Layout::kFormat;
  static constexpr CodeTable kIq4Codes = code_table(quant::kIq4Values, kFormat.offset);
  static constexpr CodeTable kFp4Codes = code_table(quant::kFp4Values, kFormat.offset);
  // The upper bytes of the halves 1024 and 16384: their lowest bits count units and sixteens.
  static constexpr std::uint32_t kHalf1024 = 0x64646464U;
  static constexpr std::uint32_t kHalf16384 = 0x74747474U;
  static constexpr int kScales = Steps::kIsSuper ? kPanelStepBlocks * Steps::kBlockGroups : 1;
  static constexpr int kFactors = Steps::kIsSuper ? 1 : Steps::kHasExponents ? 8 : 4;

  static __device__ std::uint32_t word(uint2 rows, int row) { return row == 0 ? rows.x : rows.y; }

  // Codes of a row times the integer scale of their group.
  __device__ std::uint32_t scaled(std::uint32_t codes, int group, int row) const {
    std::uint32_t bytes = scales_[group];
    __half2 scale;
    if constexpr (kFormat.has_min) {
      if constexpr (Steps::kHasNibbles) bytes &= 0x0f0fU;
      const std::uint32_t both = __byte_perm(bytes, kHalf1024, row == 0 ? 0x4040 : 0x4141);
      scale = __hsub2(half_pair(both), __float2half2_rn(1024.0F));
    } else {
      // Signed bytes: 1024 + 128 + byte are halves with the byte in the lowest bits.
      constexpr float kBase = (1024.0F + 128.0F) / Steps::kScaleUnit;
      const std::uint32_t both =
          __byte_perm(bytes ^ 0x8080U, kHalf1024, row == 0 ? 0x4040 : 0x4141);
      scale = __hfma2(half_pair(both), __float2half2_rn(1.0F / Steps::kScaleUnit),
                      __float2half2_rn(-kBase));
    }
    return half_bits(__hmul2(half_pair(codes), scale));
  }

  // Bytes of codes as signed halves. columns (4 t, 4 t + 2) and (4 t + 1, 4 t + 3)
  __device__ void byte_operands(int b,
                                int row,
                                std::uint32_t (&lower)[2],
                                std::uint32_t (&upper)[2]) const {
    std::uint32_t low = word(codes_[b], row);
    std::uint32_t high = 0;
    if constexpr (Steps::kIsPlain) {
      high = word(more_[b], row);
    } else {
      constexpr CodeTable kCodes =
          kFormat.codes == PackedFormat::Codes::Iq4 ? kIq4Codes : kFp4Codes;
      high = look_up(kCodes, low >> 4 & 0x0f0f0f0fU);
      low = look_up(kCodes, low & 0x0f0f0f0fU);
    }
    const __half2 base = __float2half2_rn(1024.0F + kFormat.offset);
    const __half2 upper_base = __float2half2_rn(16384.0F + 16 * kFormat.offset);
    lower[0] = half_bits(__hsub2(half_pair(__byte_perm(low, kHalf1024, 0x4240)), base));
    lower[1] = half_bits(__hsub2(half_pair(__byte_perm(low, kHalf1024, 0x4341)), base));
    upper[0] = half_bits(__hsub2(half_pair(__byte_perm(high, kHalf16384, 0x4240)), upper_base));
    upper[1] = half_bits(__hsub2(half_pair(__byte_perm(high, kHalf16384, 0x4341)), upper_base));
  }

  // Codes of 2, 3, 5 and 6 bits, put together from several lines.
  __device__ void small_operands(
      int b, int row, int t, std::uint32_t (&lower)[2], std::uint32_t (&upper)[2]) const {
    const auto more = [&](int i) { return word(more_[b * Steps::kMoreLines + i], row); };
    const std::uint32_t line = word(codes_[b], row);
    std::uint32_t low = 0;       // codes of columns 4 t .. 4 t + 3
    std::uint32_t high = 0;      // bits 0..3 of those 16 further, in bits 4..7
    std::uint32_t high_top = 0;  // and their bits from 4 on
    if constexpr (kFormat.bits == 5) {
      const std::uint32_t top = more(0) >> t;
      low = masked_or(line, 0x0f0f0f0fU, (top & 0x01010101U) << 4);
      high = line & 0xf0f0f0f0U;
      high_top = top >> 4 & 0x01010101U;
    } else if constexpr (kFormat.bits == 6) {
      low = masked_or(line, 0x0f0f0f0fU, (more(0) >> (2 * t) & 0x03030303U) << 4);
      high = line & 0xf0f0f0f0U;
      high_top = more(1) >> (2 * t) & 0x03030303U;
    } else {
      low = line >> (2 * t) & 0x03030303U;
      high = (more(0) >> (2 * t) & 0x03030303U) << 4;
      if constexpr (kFormat.bits == 3) {
        const std::uint32_t top = more(1) >> t;
        low |= (top & 0x01010101U) << 2;
        high |= (top & 0x10101010U) << 2;
      }
    }
    if constexpr (Steps::kIsSigned) {
      const __half2 base = __float2half2_rn(1024.0F + kFormat.offset);
      const __half2 upper_base = __float2half2_rn(1024.0F + 16 * kFormat.offset);
      high_top |= kHalf1024;
      lower[0] = half_bits(__hsub2(half_pair(__byte_perm(low, kHalf1024, 0x4240)), base));
      lower[1] = half_bits(__hsub2(half_pair(__byte_perm(low, kHalf1024, 0x4341)), base));
      upper[0] = half_bits(__hsub2(half_pair(__byte_perm(high, high_top, 0x6240)), upper_base));
      upper[1] = half_bits(__hsub2(half_pair(__byte_perm(high, high_top, 0x7351)), upper_base));
    } else {
      lower[0] = low & 0x00ff00ffU;
      lower[1] = __byte_perm(low, 0, 0x4341);
      upper[0] = __byte_perm(high, high_top, 0x6240);
      upper[1] = __byte_perm(high, high_top, 0x7351);
    }
  }

  __device__ void load_super(const PanelStepAt& at, int g, int t) {
    d_[0] = load_as<std::uint32_t>(at.header + 4 * g);
    if constexpr (kFormat.has_min) {
      dmin_ = load_as<std::uint32_t>(at.header + 2 * kPanelRows + 4 * g);
    }
    const std::uint8_t* bytes = at.header + 2 * kPanelRows * (kFormat.has_min ? 2 : 1) + 2 * g +
                                kPanelRows * Steps::kBlockGroups * at.first_block;
    const auto group = [&](int i) { return load_as<std::uint16_t>(bytes + kPanelRows * i); };
    GRAFT_UNROLL
    for (int i = 0; i < kScales; ++i)
      scales_[i] = group(i);
    if constexpr (kFormat.has_min && !Steps::kHasNibbles) {
      mins_[0] = group(Layout::kChunkGroups + t);
    } else if constexpr (Steps::kHasNibbles) {
      mins_[0] = group(2 * t);
      mins_[1] = group(2 * t + 1);
    }
  }

  __device__ void load_scales(const PanelStepAt& at, int g, int t) {
    const auto header = [&](int b) { return at.codes + b * Steps::kBlockStride; };
    GRAFT_UNROLL
    for (int b = 0; b < kPanelStepBlocks; ++b) {
      const bool is_there = b < at.num_blocks;
      if constexpr (Steps::kHasExponents) {
        const std::uint32_t both = load_as<std::uint16_t>(header(b) + 2 * g);
        d_[2 * b] = is_there ? half_of_power(both & 255) : 0;
        d_[2 * b + 1] = is_there ? half_of_power(both >> 8) : 0;
      } else {
        d_[b] = is_there ? load_as<std::uint32_t>(header(b) + 4 * g) : 0;
      }
    }
    if constexpr (Steps::kNeedsSums) {
      constexpr int kAt = kFormat.has_min ? 2 * kPanelRows : 0;
      mins_[0] = t < at.num_blocks ? load_as<std::uint32_t>(header(t) + kAt + 4 * g) : 0;
    }
  }

  // Half the power of two that is the scale, since the table values are doubled.
  static __device__ std::uint32_t half_of_power(std::uint32_t exponent) {
    return exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23;
  }

  uint2 codes_[kPanelStepBlocks];
  uint2 more_[Steps::kMoreLines == 0 ? 1 : kPanelStepBlocks * Steps::kMoreLines];
  std::uint32_t d_[kFactors];
  std::uint32_t dmin_;
  std::uint32_t scales_[kScales];
  std::uint32_t mins_[2];
};

}  // namespace graft::kernels::cuda
