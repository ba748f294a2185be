// What the headers of this folder share. They need no CUDA header: a Stream is a cudaStream_t, and
// every pointer is one of the device unless a comment says otherwise. Functions enqueue work and
// return; they allocate nothing and wait for nothing, so that all of them can be captured into a
// graph. Scratch memory is the caller's: the function named x_bytes says how much x needs.

#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace graft::kernels::cuda {

using Stream = CUstream_st*;

// The bits of an F16.
using Half = std::uint16_t;

// How products are computed where there is a choice.
enum class Arithmetic : std::uint8_t {
  F32,
  F16,  // operands rounded to 16 bits, sums in float; F32 where the GPU cannot
};

// Rows of floats, `stride` floats apart: whole rows of a matrix or the same part of each.
struct ConstRows {
  const float* data = nullptr;
  std::int64_t stride = 0;
};

struct Rows {
  float* data = nullptr;
  std::int64_t stride = 0;

  operator ConstRows() const { return {data, stride}; }  // NOLINT(google-explicit-constructor)
};

// Scratch of different arrays begins at multiples of this.
inline constexpr std::size_t kScratchAlignment = 256;

constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

}  // namespace graft::kernels::cuda
