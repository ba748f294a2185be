// The layout of panels (graft/packing/panel_layout.h) as constants for device code, and loads of
// their lines.

#pragma once

#include "graft/kernels/cuda/formats/formats_legacy.cuh"
#include "graft/packing/panel_layout.h"

namespace graft::kernels::cuda {

using packing::PackedFormat;

inline constexpr int kPanelRows = static_cast<int>(packing::kPanelRows);
inline constexpr int kPanelBlockCols = static_cast<int>(packing::kBlockCols);
inline constexpr int kPanelLineBytes = 64;

// The layout of a type, as constants for device code.
template <DType kType>
struct PanelLayout {
  static constexpr PackedFormat kFormat = packing::packed_format(kType);
  static constexpr bool kHasSuperBlocks = packing::has_super_blocks(kFormat);
  static constexpr int kChunkCols = static_cast<int>(packing::chunk_cols(kFormat));
  static constexpr int kChunkBytes = static_cast<int>(packing::chunk_bytes(kFormat));
  static constexpr int kHeaderBytes = static_cast<int>(packing::chunk_header_bytes(kFormat));
  static constexpr int kBlockBytes = static_cast<int>(packing::block_code_bytes(kFormat));
  static constexpr int kBlockGroups = kPanelBlockCols / kFormat.group;
  static constexpr int kChunkGroups = kChunkCols / kFormat.group;
};

__device__ inline std::uint32_t load_word(const std::uint8_t* from) {
  return __ldg(reinterpret_cast<const std::uint32_t*>(from));
}

// The line of four bytes per row at `line`.
__device__ inline std::uint32_t load_line(const std::uint8_t* block, int line, int row) {
  return load_word(block + kPanelLineBytes * line + 4 * row);
}

}  // namespace graft::kernels::cuda
