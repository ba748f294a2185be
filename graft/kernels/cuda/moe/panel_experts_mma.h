// Experts with weights in panels on tensor cores, for any number of rows: the pairs are sorted by
// expert on the device and multiplied in tiles of 8 rows, or of 32 or 64 where experts have many.
// Up to kMaxPairwiseTokens tokens a tile is one pair, without sorting. A token's bits do not depend
// on the other tokens.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/linear/panels/panel_rows.h"
#include "graft/kernels/cuda/moe/panel_experts.h"

namespace graft::kernels::cuda {

// Whether the current device has panel_experts_mma() for experts of these types.
bool has_panel_experts_mma(const PanelExpertsJob& job);

// Whether it multiplies many rows with wgmma.
bool has_panel_experts_wgmma(const PanelExpertsJob& job);

// Scratch bytes for `rows` rows.
std::size_t panel_experts_mma_bytes(const PanelExpertsJob& job, std::int64_t rows);
// As panel_experts(). x: routed.x as panel rows; null: converted here.
void panel_experts_mma(const PanelExpertsJob& job,
                       const RoutedRows& routed,
                       const PanelRows* x,
                       void* scratch,
                       Stream stream);

}  // namespace graft::kernels::cuda
