// Blocks of a panel unpacked into memory: what the GEMM multiplies, the same at every instruction
// set.

#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "graft/tensor/dtype.h"

namespace graft::kernels::cpu {

inline constexpr int kBlockWords = 8;  // words of four codes in a block of 32 columns

// Blocks of a panel that are unpacked at once: they stay in the L1 cache while all rows of x use
// them. A multiple of the blocks of a chunk.
inline constexpr int kBlocksAtOnce = 16;

struct UnpackedPanel {
  alignas(64) std::byte codes[kBlocksAtOnce][kBlockWords * 64];  // word i of row r at 64 i + 4 r
  alignas(64) float scales[kBlocksAtOnce][2][16];                // [block][group][row]
  alignas(64) float mins[kBlocksAtOnce][2][16];                  // [block][group][row]
};

// Unpacks `num_blocks` blocks (whole chunks) of a panel.
using UnpackPanel = void (*)(const std::byte* panel, int num_blocks, UnpackedPanel& out);

// For the types with stored words (graft/packing/panel_layout.h); null for the others.
using StoredUnpackers = std::array<UnpackPanel, kNumDTypes>;

namespace scalar {
extern const StoredUnpackers kStoredUnpackers;
}  // namespace scalar

namespace avx2 {
extern const StoredUnpackers kStoredUnpackers;
}  // namespace avx2

// AVX-512 with VBMI and BITALG, which the level avx512 does not require.
namespace vbmi {
extern const StoredUnpackers kStoredUnpackers;
}  // namespace vbmi

// The fastest that a CPU of level avx512 supports.
const StoredUnpackers& avx512_stored_unpackers();

namespace neon {
extern const StoredUnpackers kStoredUnpackers;
}  // namespace neon

struct NamedUnpackers {
  std::string_view name;
  const StoredUnpackers* unpackers;
};

// All that this CPU supports: for tests.
std::vector<NamedUnpackers> runnable_stored_unpackers();

}  // namespace graft::kernels::cpu
