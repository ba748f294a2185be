// Types shared by the headers of this folder, which include no CUDA header: a Stream is a
// cudaStream_t. Every pointer is a device pointer unless a comment says otherwise. Functions
// enqueue work and return; they neither allocate nor synchronize, so all of them can be captured
// into a CUDA graph. The caller owns scratch memory; x_bytes() returns the size that x() needs.

#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace graft::kernels::cuda {

using Stream = CUstream_st*;

// The bits of an f16 value.
using Half = std::uint16_t;

// Operand precision of matrix products; sums are always f32.
enum class Arithmetic : std::uint8_t {
  F32,
  F16,  // 16-bit operands on tensor cores; F32 on GPUs without them
};

// f32 rows, `stride` floats apart: whole rows of a matrix or a column range of them.
struct ConstRows {
  const float* data = nullptr;
  std::int64_t stride = 0;
};

struct Rows {
  float* data = nullptr;
  std::int64_t stride = 0;

  operator ConstRows() const { return {data, stride}; }  // NOLINT(google-explicit-constructor)
};

// Arrays in scratch memory start at multiples of this many bytes.
inline constexpr std::size_t kScratchAlignment = 256;

constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

}  // namespace graft::kernels::cuda
