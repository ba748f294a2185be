// Unquantized formats. Rows may have any length; the last run is zero-padded.

#pragma once

#include "graft/kernels/cuda/formats/bits.cuh"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

// Values are decoded in runs of 8: one row of an IQ grid, half a K sub-block of 16, 16 bytes of a
// 16-bit dtype.
inline constexpr int kRun = 8;

// Code: the storage type; Convert::value: its f32 value.
template <DType kDType, class Code, class Convert>
struct PlainFormat {
  static constexpr DType kType = kDType;
  static constexpr bool kPlain = true;

  static __device__ void decode(const std::uint8_t* row,
                                std::int64_t col,
                                std::int64_t cols,
                                float (&out)[kRun]) {
    const Code* codes = reinterpret_cast<const Code*>(row) + col;
    constexpr std::uintptr_t kBytes = kRun * sizeof(Code);
    constexpr std::uintptr_t kVector = kBytes < 16 ? kBytes : 16;
    Code values[kRun];
    if (col + kRun <= cols && reinterpret_cast<std::uintptr_t>(codes) % kVector == 0) {
      load_vectors(codes, values);
    } else {
      GRAFT_UNROLL
      for (int i = 0; i < kRun; ++i)
        values[i] = col + i < cols ? codes[i] : Code{0};
    }
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = Convert::value(values[i]);
  }

 private:
  static __device__ void load_vectors(const Code* from, Code (&to)[kRun]) {
    std::uint32_t words[2 * sizeof(Code)];
    if constexpr (sizeof(Code) == 1) {
      const uint2 v = *reinterpret_cast<const uint2*>(from);
      words[0] = v.x;
      words[1] = v.y;
    } else {
      GRAFT_UNROLL
      for (int i = 0; i < static_cast<int>(sizeof(Code)) / 2; ++i) {
        const uint4 v = reinterpret_cast<const uint4*>(from)[i];
        words[4 * i] = v.x;
        words[4 * i + 1] = v.y;
        words[4 * i + 2] = v.z;
        words[4 * i + 3] = v.w;
      }
    }
    constexpr int kPerWord = 4 / sizeof(Code);
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      to[i] = static_cast<Code>(words[i / kPerWord] >> (i % kPerWord * 8 * sizeof(Code)));
  }
};

struct ConvertF32 {
  static __device__ float value(std::uint32_t code) { return __uint_as_float(code); }
};
struct ConvertF16 {
  static __device__ float value(std::uint32_t code) { return f16_to_float(code); }
};
struct ConvertBF16 {
  static __device__ float value(std::uint32_t code) { return bf16_to_float(code); }
};
struct ConvertE4M3 {
  static __device__ float value(std::uint32_t code) { return e4m3_to_float(code); }
};
struct ConvertE5M2 {
  static __device__ float value(std::uint32_t code) { return e5m2_to_float(code); }
};

using FormatF32 = PlainFormat<DType::F32, std::uint32_t, ConvertF32>;
using FormatF16 = PlainFormat<DType::F16, std::uint16_t, ConvertF16>;
using FormatBF16 = PlainFormat<DType::BF16, std::uint16_t, ConvertBF16>;
using FormatF8E4M3 = PlainFormat<DType::F8_E4M3, std::uint8_t, ConvertE4M3>;
using FormatF8E5M2 = PlainFormat<DType::F8_E5M2, std::uint8_t, ConvertE5M2>;

}  // namespace graft::kernels::cuda
