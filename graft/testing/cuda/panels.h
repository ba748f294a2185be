// Random matrices in panels, and their values as f32 rows.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graft/kernels/cuda/formats/panels.h"
#include "graft/packing/pack_panel.h"
#include "graft/packing/panel_layout.h"
#include "graft/testing/cuda/device.cuh"
#include "graft/testing/cuda/weights.h"

namespace graft::kernels::cuda::testing {

// Matrices of equal shape, the last panel of each padded.
inline std::vector<std::byte> pack_stack(DType type,
                                         const std::vector<std::byte>& stored,
                                         std::int64_t num_matrices,
                                         std::int64_t rows,
                                         std::int64_t cols) {
  const auto row_bytes = static_cast<std::int64_t>(bytes_of(type, cols));
  const std::int64_t panel_bytes = packing::panel_bytes(packing::packed_format(type), cols);
  std::vector<std::byte> packed(
      static_cast<std::size_t>(num_matrices * packing::packed_bytes(type, rows, cols)));
  std::byte* panel = packed.data();
  for (std::int64_t matrix = 0; matrix < num_matrices; ++matrix) {
    for (std::int64_t row = 0; row < rows; row += packing::kPanelRows, panel += panel_bytes) {
      packing::pack_panel(type,
                          {.data = stored.data() + (matrix * rows + row) * row_bytes,
                           .rows = std::min(packing::kPanelRows, rows - row),
                           .cols = cols,
                           .stride = row_bytes},
                          quant::reference_codecs(), panel);
    }
  }
  return packed;
}

struct PanelStackCase {
  PanelStackCase(DType type,
                 std::int64_t num_matrices,
                 std::int64_t num_rows,
                 std::int64_t num_cols,
                 unsigned seed)
      : dtype(type),
        rows(num_rows),
        cols(num_cols),
        matrix_bytes(static_cast<std::size_t>(packing::packed_bytes(type, num_rows, num_cols))),
        panels(pack_stack(type,
                          random_matrix(type, num_matrices * num_rows, num_cols, seed).bytes,
                          num_matrices,
                          num_rows,
                          num_cols)),
        values(static_cast<std::size_t>(num_matrices * num_rows * num_cols)) {
    unpack_panels({.dtype = type,
                   .panels = panels.get(),
                   .num_matrices = num_matrices,
                   .rows = num_rows,
                   .cols = num_cols},
                  values.get(), nullptr);
  }

  DType dtype;
  std::int64_t rows;
  std::int64_t cols;
  std::size_t matrix_bytes;
  DeviceArray<std::byte> panels;
  DeviceArray<float> values;  // [num_matrices, rows, cols]
};

}  // namespace graft::kernels::cuda::testing
