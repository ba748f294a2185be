// Matrices of 16-bit values in shared memory without padding: the 16-byte vectors of a row are
// permuted within each 128 bytes, vector v of row r is at v ^ (r % 8). The 8 rows of an ldmatrix
// then hit distinct banks.

#pragma once

#include <cstdint>

namespace graft::kernels::cuda {

inline constexpr int kVector = 8;       // values per vector
inline constexpr int kLineVectors = 8;  // vectors per 128 bytes
inline constexpr int kLine = kVector * kLineVectors;

// Address of a vector of a matrix of kDim columns, a multiple of kLine. The matrix starts at a
// multiple of 128 bytes.
template <int kDim>
__device__ std::uint32_t vector_address(std::uint32_t matrix, int row, int vector) {
  static_assert(kDim % kLine == 0);
  const int permuted = vector / kLineVectors * kLineVectors + (vector ^ row) % kLineVectors;
  return matrix + static_cast<std::uint32_t>(row * kDim * 2 + permuted * 16);
}

// The address of the vector `vectors` further in the same row. `vectors` is even, and the address
// is that of vector 0 or 1 of 128 bytes.
__device__ inline std::uint32_t advance(std::uint32_t address, int vectors) {
  return (address ^ static_cast<std::uint32_t>(vectors % kLineVectors * 16)) +
         static_cast<std::uint32_t>(vectors / kLineVectors * 128);
}

}  // namespace graft::kernels::cuda
