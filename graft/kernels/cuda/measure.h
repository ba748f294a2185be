// Kernels that measure a GPU: they read memory or do nothing.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// *result ^= every 32-bit word of `data`, which is 16-byte aligned. `bytes` is a multiple of 16.
// The result keeps the compiler from removing the loads.
void xor_words(const void* data, std::size_t bytes, std::uint32_t* result, Stream stream);

// Pseudo-random F16 values with magnitudes in [0.5, 1); `count` is a multiple of 2. Pairs of them
// are finite f32 values as well. Products of zeros would draw less power and run at higher clocks.
void fill_random_f16(Half* out, std::int64_t count, Stream stream);

// A kernel of one thread that does nothing.
void launch_empty(Stream stream);

}  // namespace graft::kernels::cuda
